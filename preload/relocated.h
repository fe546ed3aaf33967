/* SPDX-License-Identifier: MIT
 *
 * Which files in memory are relocated. The dynamic linker lists a file before it writes to the file's references and makes them
 * read-only (dl_open_worker_begin of glibc's elf/dl-open.c): who changes them, or their page, at that time ends the program.
 *
 * All that one call loads is added to the end of the list and relocated under one lock, which dlopen and dlsym take (musl's
 * dl_iterate_phdr, too). So the files that are listed before such a call are relocated when it returns. The one that dlopen
 * returns is, with those before it, and with those after it that were loaded for it.
 */
#pragma once

#include "atomics.h"
#include "objects.h"

static u64 relocated; /* how many of the first files are; the upper half: of what list */
static u64 all_seen;  /* how many files had been added, plus 1, when all of them were looked at; 0: not yet */

/* How many of the first files are relocated, if as many are removed as when that was noted: of a glibc with dlmopen it is a number
 * that may become less (dl_iterate_phdr counts the files of other namespaces several times). */
static u32 relocated_files(u32 removed)
{
	u64 noted = GET(relocated);
	return (u32)(noted >> 32) == removed ? (u32)noted : 0;
}

/* Note that the first `count` files are relocated. */
static void note_relocated(u32 count, u32 removed)
{
	u64 seen = GET(relocated), noted = (u64)removed << 32 | count;
	do
		if (seen >> 32 == removed && (u32)seen >= count)
			return;
	while (!__atomic_compare_exchange_n(&relocated, &seen, noted, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
}

#define ALL_SEEN 1
#define FILES_COUNTED 2

/* The files that are listed. */
struct listed {
	const struct link_map *loaded; /* what dlopen returned */
	u32 count, removed;
};

static int count_listed(struct dl_phdr_info *info, size_t size, void *state)
{
	struct listed *listed = state;
	if (!listed->count++ && size >= sizeof(*info)) {
		listed->removed = (u32)info->dlpi_subs;
		return GET(all_seen) == info->dlpi_adds + 1 ? ALL_SEEN : 0;
	}
	return 0;
}

static u64 dynamic_value(const struct link_map *file, s64 tag)
{
	for (const ElfW(Dyn) *entry = file->l_ld; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == tag)
			return entry->d_un.d_val;
	return 0;
}

/* The text of a file's entry with an offset in its names. */
static const char *dynamic_text(const struct link_map *file, u64 offset)
{
	u64 names = dynamic_value(file, DT_STRTAB);
	return (const char *)(names < file->l_addr ? names + file->l_addr : names) + offset;
}

/* Whether `name` in another file's DT_NEEDED may mean this file (_dl_map_object of glibc's elf/dl-load.c). */
static int is_named(const struct link_map *file, const char *name)
{
	const char *last = file->l_name;
	for (const char *each = last; *each; each++)
		last = *each == '/' ? each + 1 : last;
	u64 own = dynamic_value(file, DT_SONAME);
	return is_same(last, name) || is_same(file->l_name, name) || (own && is_same(dynamic_text(file, own), name));
}

/* Whether `name` means `file`, and none before it. `first`: in the list. */
static int is_first_named(const struct link_map *first, const struct link_map *file, const char *name)
{
	if (!is_named(file, name))
		return 0;
	while (first != file && !is_named(first, name))
		first = first->l_next;
	return first == file;
}

/* Whether `file` was loaded for one of those from `loaded` on. */
static int is_needed(const struct link_map *first, const struct link_map *loaded, const struct link_map *file)
{
	for (; loaded != file; loaded = loaded->l_next)
		for (const ElfW(Dyn) *entry = loaded->l_ld; entry && entry->d_tag != DT_NULL; entry++)
			if (entry->d_tag == DT_NEEDED &&
			    is_first_named(first, file, dynamic_text(loaded, entry->d_un.d_val)))
				return 1;
	return 0;
}

/* Count the files up to the one that dlopen returned, and those that were loaded for it. */
static int count_loaded(struct dl_phdr_info *info, size_t size, void *state)
{
	struct listed *listed = state;
	if (count_listed(info, size, listed) == ALL_SEEN)
		return ALL_SEEN;
	const struct link_map *first = listed->loaded, *file = listed->loaded->l_next;
	for (; first->l_prev; first = first->l_prev)
		listed->count++;
	for (; file && is_needed(first, listed->loaded, file); file = file->l_next)
		listed->count++;
	return FILES_COUNTED;
}
