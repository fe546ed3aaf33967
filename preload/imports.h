/* SPDX-License-Identifier: MIT
 *
 * Finds the TLS libraries that are in memory, and makes the references of all files to their functions those to the wrappers.
 *
 * A reference that the dynamic linker has bound says exactly whose function it is. One that it would bind at the first call
 * (lazily) does not yet: it is bound here, if only one library in memory can be meant, or one that the program was started with,
 * as the dynamic linker looks through these first. Else it stays, and is counted.
 */
#pragma once

#include "descriptors.h"
#include "relocated.h"

#if defined(__x86_64__)
#define RELOCATION_ADDRESS R_X86_64_64
#define RELOCATION_DATA R_X86_64_GLOB_DAT
#define RELOCATION_CALL R_X86_64_JUMP_SLOT
#elif defined(__aarch64__)
#define RELOCATION_ADDRESS R_AARCH64_ABS64
#define RELOCATION_DATA R_AARCH64_GLOB_DAT
#define RELOCATION_CALL R_AARCH64_JUMP_SLOT
#endif

/* What was seen of the list of files. Files are added at its end. */
struct file_list {
	u64 added, removed; /* files, ever, in all namespaces */
	u32 looked_at;	    /* the first ones */
};

static struct file_list seen_files;
static u32 startup_files; /* the first files of the list: those that the program was started with, which stay */
static u64 generation;
static u32 has_other_exporters[FAMILIES]; /* files that export a wrapped function, and are no TLS library */
static u64 page_bytes;
static u8 has_rpath; /* a file that was loaded is: dlopen looks there for what the file loads */
static u8 has_deep;  /* a file was loaded with RTLD_DEEPBIND */

#define MOST_LOOKS 8 /* while other threads load and unload files */

/* One pass through the list. */
struct pass {
	struct file_list list;
	u32 first, until;  /* the files to look at */
	u32 index;	   /* of the present file */
	u32 beyond;	   /* copies of libraries for which there was no place */
	u8 is_unchanged;   /* since the last time, as far as files are relocated */
	u8 is_interrupted; /* the list has changed since `list` */
};

/* Note which list of files a pass goes through. Returns the index of the present file. */
static u32 next_file(struct pass *pass, const struct dl_phdr_info *info, size_t size)
{
	u32 index = pass->index++;
	if (index || size < sizeof(*info))
		return index;
	pass->list = (struct file_list){.added = info->dlpi_adds, .removed = info->dlpi_subs};
	return index;
}

static int is_wrapped(const struct function *function)
{
	return function->wrappers != 0;
}

static struct library *library_at(enum family family, u64 address)
{
	for (u32 i = 0; i < MOST_LIBRARIES; i++) {
		struct library *library = &libraries[i];
		u64 end = __atomic_load_n(&library->end, __ATOMIC_ACQUIRE);
		if (end && library->family == family && is_within(address, library->start, end))
			return library;
	}
	return 0;
}

static enum library_name library_name(enum family family, const struct object *object)
{
	if (family == FAMILY_OPENSSL)
		return find_export(object, "SSL_CTX_set_grease_enabled") ? LIBRARY_BORINGSSL : LIBRARY_OPENSSL;
	return family == FAMILY_GNUTLS ? LIBRARY_GNUTLS : LIBRARY_NSS;
}

static struct library *free_library(void)
{
	for (u32 i = 0; i < MOST_LIBRARIES; i++)
		if (!libraries[i].end)
			return &libraries[i];
	return 0;
}

/* What says a thread's last error: in libcrypto, and in NSPR. */
static const char *const last_errors[FAMILIES] = {
    [FAMILY_OPENSSL] = "ERR_peek_last_error",
    [FAMILY_NSS] = "PR_GetError",
};

/* Find these functions for the libraries that were linked with the file that has them. */
static int find_last_errors(struct dl_phdr_info *info, size_t size, void *state)
{
	struct object object;
	(void)size, (void)state;
	read_object(info, &object);
	for (u32 i = 0; i < MOST_LIBRARIES; i++) {
		struct library *library = &libraries[i];
		const char *name = last_errors[library->family];
		if (library->end && name && !library->last_error &&
		    (library->of.dynamic == object.dynamic || needs(&library->of, &object)))
			__atomic_store_n(&library->last_error, exported_by(&object, name), __ATOMIC_RELAXED);
	}
	return 0;
}

/* Learn a library, or see again that it is there. Returns 0 if there is no place for it. */
static int learn_library(enum family family, const struct object *object, u32 order)
{
	struct library *library = library_at(family, object->start);
	if (!library)
		library = free_library();
	if (!library)
		return 0;
	library->family = family;
	library->order = order;
	library->generation = generation;
	library->of = *object;
	const struct function *functions = families[family]->functions;
	__atomic_store_n(&library->name, library_name(family, object), __ATOMIC_RELAXED);
	for (u32 i = 0; i < MOST_FUNCTIONS && functions[i].name; i++)
		__atomic_store_n(&library->functions[i], exported_by(object, functions[i].name), __ATOMIC_RELAXED);
	__atomic_store_n(&library->last_error, 0, __ATOMIC_RELAXED);
	library->start = object->start;
	__atomic_store_n(&library->end, object->end, __ATOMIC_RELEASE);
	return 1;
}

static int exports_wrapped(const struct object *object, enum family family)
{
	const struct function *functions = families[family]->functions;
	for (u32 i = 0; i < MOST_FUNCTIONS && functions[i].name; i++)
		if (is_wrapped(&functions[i]) && find_export(object, functions[i].name))
			return 1;
	return 0;
}

static int find_libraries(struct dl_phdr_info *info, size_t size, void *state)
{
	struct pass *pass = state;
	u32 index = next_file(pass, info, size);
	if (!index) {
		/* Where none was removed, those that were looked at are the first ones still. */
		pass->first = pass->list.removed == seen_files.removed ? seen_files.looked_at : 0;
		pass->until = relocated_files((u32)pass->list.removed);
		pass->is_unchanged = pass->until <= pass->first;
		if (pass->is_unchanged)
			return 1;
		if (!pass->first) {
			generation++;
			for (u32 family = 0; family < FAMILIES; family++)
				has_other_exporters[family] = 0;
		}
	}
	if (index < pass->first)
		return 0;
	struct object object;
	read_object(info, &object);
	if (object.dynamic == _DYNAMIC || !object.symbols)
		return 0;
	if (find_export(&object, "io_uring_queue_init")) /* liburing makes system calls by itself */
		forget_descriptors();
	for (u32 family = 0; family < FAMILIES; family++)
		if (find_export(&object, families[family]->mark))
			pass->beyond += !learn_library(family, &object, index) && index < pass->until;
		else
			has_other_exporters[family] += (u32)exports_wrapped(&object, family);
	return 0;
}

/* Free the places of libraries that were unloaded; returns how many these are. */
static u32 forget_unloaded(void)
{
	u32 count = 0;
	for (u32 i = 0; i < MOST_LIBRARIES; i++)
		if (libraries[i].end && libraries[i].generation != generation) {
			__atomic_store_n(&libraries[i].end, 0, __ATOMIC_RELEASE);
			count++;
		}
	return count;
}

/* Whether a library has the function in the version that a reference needs. */
static int has_version(const struct library *library, const char *name, const char *needed)
{
	u32 index = find_export(&library->of, name);
	const char *own = index && needed ? own_version(&library->of, index) : 0;
	return index && (!own || is_same(own, needed));
}

/* The library that a reference which is not bound yet will be bound to; 0: it is not certain. */
static struct library *future_library(enum family family, const char *name, const char *version)
{
	struct library *first = 0;
	u32 count = 0;
	for (u32 i = 0; i < MOST_LIBRARIES; i++) {
		struct library *library = &libraries[i];
		if (!library->end || library->family != family || !has_version(library, name, version))
			continue;
		if (!first || library->order < first->order)
			first = library;
		count++;
	}
	int is_certain = count == 1 || (count && first->order < startup_files && !has_deep);
	if (count && (!is_certain || has_other_exporters[family])) {
		COUNT(several, 1);
		return 0;
	}
	return first;
}

/* Write a reference, if it is still as it was seen. */
static void write_reference(const struct object *object, u64 *place, u64 seen, u64 wrapper)
{
	u64 page = (u64)place & ~(page_bytes - 1);
	int is_read_only =
	    is_within(page, object->relro_start & ~(page_bytes - 1), object->relro_end & ~(page_bytes - 1));
	if (is_read_only && (!may_ask_kernel() || system_call(__NR_mprotect, (long)page, (long)page_bytes,
							      PROT_READ | PROT_WRITE, 0, 0, 0))) {
		COUNT(several, 1);
		return;
	}
	__atomic_compare_exchange_n(place, &seen, wrapper, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	if (is_read_only)
		system_call(__NR_mprotect, (long)page, (long)page_bytes, PROT_READ, 0, 0, 0);
}

/* The wrapper for the function of a library that begins at `address`; 0: it is none. */
static void *wrapper_of(enum family family, const struct function *function, u64 address)
{
	const struct library *library = library_at(family, address);
	if (!library || (u64)library->functions[function - families[family]->functions] != address)
		return 0;
	return function->wrappers[library - libraries];
}

static void refer_to_wrapper(const struct object *object, const ElfW(Rela) * relocation, enum family family,
			     const struct function *function)
{
	u32 index = ELF64_R_SYM(relocation->r_info);
	u64 *place = (u64 *)(object->base + relocation->r_offset);
	if (!is_within((u64)place, object->start, object->end - 7))
		return;
	u64 seen = __atomic_load_n(place, __ATOMIC_RELAXED);
	u64 meant = seen;
	if (ELF64_R_TYPE(relocation->r_info) == RELOCATION_CALL && is_within(seen, object->start, object->end)) {
		const struct library *library = future_library(family, function->name, needed_version(object, index));
		meant = library ? (u64)library->functions[function - families[family]->functions] : 0;
	}
	void *wrapper = wrapper_of(family, function, meant);
	if (wrapper)
		write_reference(object, place, seen, (u64)wrapper);
}

/* A wrapped function by its name; 0: there is none. */
static const struct function *function_named(const char *name, enum family *family)
{
	if (!(name[0] == 'S' && name[1] == 'S' && name[2] == 'L') && !(name[0] == 'B' && name[1] == 'I') &&
	    !(name[0] == 'P' && name[1] == 'R') && !(name[0] == 'g' && name[1] == 'n'))
		return 0;
	for (*family = 0; *family < FAMILIES; ++*family) {
		const struct function *functions = families[*family]->functions;
		for (u32 i = 0; i < MOST_FUNCTIONS && functions[i].name; i++)
			if (is_wrapped(&functions[i]) && is_same(functions[i].name, name))
				return &functions[i];
	}
	return 0;
}

/* Add a path to a list of texts, each of which a zero byte ends, once. What there is no room for is left out. `number`: a byte
 * before each path; 0: none. */
static void name_once(u64 *bytes, char *texts, u64 room, char number, const char *path)
{
	u64 used = *bytes, before = number != 0, size = before + strlen(path) + 1;
	for (u64 at = 0; at < used && used <= room; at += strlen(texts + at) + 1)
		if (is_same(texts + at + before, path))
			return;
	if (used > room || size > room - used)
		return;
	texts[used] = number;
	memcpy(texts + used + before, path, size - before);
	__atomic_store_n(bytes, used + size, __ATOMIC_RELEASE);
}

/* Name a file in memory. */
static void name_loaded(struct writer_page *page, const struct object *object)
{
	if (object->path[0] == '/')
		name_once(&page->loaded_bytes, page->loaded_files, LOADED_NAMES_BYTES, 0, object->path);
}

/* Name the copies of libraries for which there is no place. */
static void name_copies(struct writer_page *page, const struct object *object)
{
	for (u32 family = 0; family < FAMILIES; family++)
		if (find_export(object, families[family]->mark) && !library_at(family, object->start))
			name_once(&page->copy_bytes, page->named_copies, COPY_NAMES_BYTES,
				  (char)library_name(family, object), object->path);
}

static void look_at_references(const struct object *object, const ElfW(Rela) * relocations, u64 bytes)
{
	for (u64 i = 0; relocations && i < bytes / sizeof(*relocations); i++) {
		u32 index = ELF64_R_SYM(relocations[i].r_info), type = ELF64_R_TYPE(relocations[i].r_info);
		if (!index || (type != RELOCATION_ADDRESS && type != RELOCATION_DATA && type != RELOCATION_CALL) ||
		    (type == RELOCATION_ADDRESS && relocations[i].r_addend))
			continue;
		const ElfW(Sym) *symbol = &object->symbols[index];
		enum family family;
		const struct function *function = function_named(object->names + symbol->st_name, &family);
		if (function && symbol->st_shndx == SHN_UNDEF) /* a library's calls of itself are not a program's */
			refer_to_wrapper(object, &relocations[i], family, function);
	}
}

static int find_references(struct dl_phdr_info *info, size_t size, void *state)
{
	struct pass *pass = state;
	struct file_list expected = pass->list;
	u32 index = next_file(pass, info, size);
	pass->is_interrupted |= expected.added != pass->list.added || expected.removed != pass->list.removed;
	if (pass->is_interrupted)
		return 1;
	struct object object;
	if (index < pass->first)
		return 0;
	if (index >= pass->until)
		return 1;
	read_object(info, &object);
	if (object.dynamic == _DYNAMIC || !object.symbols || !object.names)
		return 0;
	struct writer_page *page = enter_record();
	if (page)
		name_loaded(page, &object);
	if (page && pass->beyond)
		name_copies(page, &object);
	leave_record();
	for (u32 i = 0; i < 2; i++)
		look_at_references(&object, object.relocations[i], object.relocation_bytes[i]);
	has_rpath |= object.path[0] && object.has_rpath;
	return 0;
}

/* Look at the files that were relocated since the last time; returns 0 if others were loaded meanwhile. */
static int look_at_files_once(void)
{
	struct pass pass = {0};
	dl_iterate_phdr(find_libraries, &pass);
	if (pass.is_unchanged)
		return 1;
	if (!pass.first && forget_unloaded() && pass.beyond)
		return 0;
	dl_iterate_phdr(find_last_errors, 0);
	u32 listed = pass.index;
	pass.index = 0;
	dl_iterate_phdr(find_references, &pass);
	if (pass.is_interrupted)
		return 0;
	seen_files = pass.list;
	seen_files.looked_at = pass.until;
	if (listed <= pass.until)
		SET(all_seen, pass.list.added + 1);
	COUNT(copies, pass.beyond);
	return 1;
}

/* Look at the files that were relocated since the last time. Does not wait for a thread that is doing so: that looks again. */
static __attribute__((noinline)) void look_at_files(void)
{
	if (__atomic_fetch_add(&process->looks, 1, __ATOMIC_ACQ_REL))
		return;
	u32 looks;
	do {
		looks = __atomic_load_n(&process->looks, __ATOMIC_ACQUIRE);
		for (u32 i = 0; i < MOST_LOOKS && !look_at_files_once(); i++)
			;
	} while (!__atomic_compare_exchange_n(&process->looks, &looks, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
}

/* Look at the files that are listed now, in a call that is about to take the dynamic linker's lock anyway; again if others were loaded
 * or unloaded meanwhile. dlsym takes the lock, and finds what it is asked for. */
static __attribute__((noinline)) void look_at_listed_files(void)
{
	for (u32 i = 0; i < MOST_LOOKS; i++) {
		struct listed listed = {0};
		if (dl_iterate_phdr(count_listed, &listed) == ALL_SEEN)
			return;
		((void *(*)(void *, const char *))real_function(REAL_DLSYM))(RTLD_DEFAULT, "dlsym");
		note_relocated(listed.count, listed.removed);
		look_at_files();
	}
}

/* Look at what dlopen has loaded; again if others were meanwhile. Takes no lock: a thread that has it may be waiting for this one. */
static __attribute__((noinline)) void look_at_loaded_files(void *loaded)
{
	for (u32 i = 0; i < MOST_LOOKS; i++) {
		struct listed listed = {.loaded = loaded};
		/* What musl lists is relocated. */
		if (dl_iterate_phdr(&_r_debug ? count_loaded : count_listed, &listed) == ALL_SEEN)
			return;
		note_relocated(listed.count, listed.removed);
		look_at_files();
	}
}

/* Look at the files that the program was started with: all are relocated. */
static void look_at_startup_files(void)
{
	struct listed listed = {0};
	page_bytes = getauxval(AT_PAGESZ);
	dl_iterate_phdr(count_listed, &listed);
	note_relocated(listed.count, listed.removed);
	look_at_files();
	startup_files = seen_files.looked_at;
}
