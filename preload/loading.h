/* SPDX-License-Identifier: MIT
 *
 * Wraps the calls by which a program loads libraries: a library that is loaded apart from the others finds the TLS
 * library's own functions. They look at who called them, so the wrappers jump there.
 */
static void *real_dlmopen;

EXPORTED void *dlopen(const char *path, int mode)
{
	if (mode & RTLD_DEEPBIND && is_watched())
		add_to(&writer->deep, 1);
	JUMP return ((void *(*)(const char *, int))real_function(&real_dlopen, "dlopen"))(path, mode);
}

EXPORTED void *dlmopen(long name_space, const char *path, int mode)
{
	if (name_space && is_watched()) /* 0: LM_ID_BASE */
		add_to(&writer->separate, 1);
	JUMP return ((void *(*)(long, const char *, int))real_function(&real_dlmopen, "dlmopen"))(name_space, path,
												  mode);
}

EXPORTED int dlclose(void *handle)
{
	__atomic_fetch_add(&unloads, 1, __ATOMIC_ACQ_REL);
	return ((int (*)(void *))real_function(&real_dlclose, "dlclose"))(handle);
}
