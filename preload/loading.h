/* SPDX-License-Identifier: MIT
 *
 * Wraps the calls by which a program loads libraries: what was loaded is looked at before the program gets it.
 *
 * The real functions look at who called them, for the folders in which that file wants libraries to be searched. Where that may
 * matter the wrapper jumps there, and what was loaded is looked at in the next call of dlopen or dlsym.
 */
#pragma once

#include "imports.h"

/* Whether dlopen finds the same whoever calls it. */
static __attribute__((noinline)) int is_found_alike(const char *path, u64 caller)
{
	int has_folder = 0;
	for (const char *each = path; each && *each; each++) {
		if (*each == '$')
			return 0;
		has_folder |= *each == '/';
	}
	if (!path || has_rpath)
		return !path;
	struct object object;
	return has_folder || (find_object(caller, &object) && !object.has_rpath && !object.has_runpath &&
			      !(object.flags & DF_1_NODEFLIB));
}

EXPORTED void *dlopen(const char *path, int mode)
{
	void *(*real)(const char *, int) = real_function(REAL_DLOPEN);
	if (is_watched()) {
		has_deep |= (mode & RTLD_DEEPBIND) != 0;
		look_at_listed_files();
		if (is_found_alike(path, (u64)__builtin_return_address(0))) {
			void *handle = real(path, mode);
			if (handle)
				look_at_loaded_files(handle);
			return handle;
		}
	}
	JUMP return real(path, mode);
}

EXPORTED void *dlmopen(long name_space, const char *path, int mode)
{
	if (name_space && is_watched()) /* 0: LM_ID_BASE */
		COUNT(separate, 1);
	JUMP return ((void *(*)(long, const char *, int))real_function(REAL_DLMOPEN))(name_space, path, mode);
}

/* What RTLD_NEXT finds for code of a file that the program was started with. */
struct next_search {
	u64 caller;
	const char *name;
	void *found;
	u32 index;
	u8 is_after;
};

static int find_next(struct dl_phdr_info *info, size_t size, void *state)
{
	struct next_search *search = state;
	struct object object;
	(void)size;
	if (search->index++ == startup_files)
		return 1;
	read_object(info, &object);
	if (search->is_after && object.dynamic != _DYNAMIC)
		search->found = exported_by(&object, search->name);
	search->is_after |= is_within(search->caller, object.start, object.end);
	return search->found != 0;
}

static void *next_function(const char *name, const void *caller)
{
	struct next_search search = {.caller = (u64)caller, .name = name};
	dl_iterate_phdr(find_next, &search);
	return search.found;
}

/* The wrapper of what dlsym or dlvsym finds; 0: it has none. */
static __attribute__((noinline)) void *found_wrapper(void *handle, const char *name, const char *version,
						     const void *caller)
{
	enum family family;
	void *found;
	if (!is_watched())
		return 0;
	look_at_listed_files();
	const struct function *function = function_named(name, &family);
	if (!function)
		return 0;
	if (handle == RTLD_NEXT)
		found = version ? 0 : next_function(name, caller);
	else if (version)
		found =
		    ((void *(*)(void *, const char *, const char *))real_function(REAL_DLVSYM))(handle, name, version);
	else
		found = ((void *(*)(void *, const char *))real_function(REAL_DLSYM))(handle, name);
	return found ? wrapper_of(family, function, (u64)found) : 0;
}

EXPORTED void *dlsym(void *handle, const char *name)
{
	void *wrapper = found_wrapper(handle, name, 0, __builtin_return_address(0));
	if (wrapper)
		return wrapper;
	JUMP return ((void *(*)(void *, const char *))real_function(REAL_DLSYM))(handle, name);
}

EXPORTED void *dlvsym(void *handle, const char *name, const char *version)
{
	void *wrapper = found_wrapper(handle, name, version, __builtin_return_address(0));
	if (wrapper)
		return wrapper;
	JUMP return ((void *(*)(void *, const char *, const char *))real_function(REAL_DLVSYM))(handle, name, version);
}
