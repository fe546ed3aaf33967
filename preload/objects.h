/* SPDX-License-Identifier: MIT
 *
 * The files that are in memory, as the dynamic linker lists them, and their symbols. dl_iterate_phdr waits for no
 * constructor: its lock is held only while the list changes.
 */
#pragma once

#include "c_library.h"
#include "shared.h"

#include <elf.h>
#include <link.h>

/* A file in memory; 0: it has no such table. */
struct object {
	u64 base, start, end;
	u64 relro_start, relro_end; /* read-only once it is relocated */
	const char *path;	    /* empty: the program itself */
	const ElfW(Dyn) * dynamic;
	const ElfW(Sym) * symbols;
	const char *names;
	const u32 *gnu_hash; /* buckets, first symbol, words of the filter, its shift; then the three tables */
	const u32 *old_hash; /* buckets, chains; then both tables */
	const u16 *versions; /* of each symbol */
	const ElfW(Verneed) * needed_versions;
	const ElfW(Verdef) * own_versions;
	const ElfW(Rela) * relocations[2]; /* of data, and of calls */
	u64 relocation_bytes[2];
	u64 flags;     /* DT_FLAGS_1 */
	u64 soname_at; /* of its own name, in `names` */
	u8 has_rpath, has_runpath;
};

static inline int is_within(u64 address, u64 start, u64 end)
{
	return address - start < end - start;
}

static int is_same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

/* Where in struct object the value of an entry is put. */
static const struct {
	u32 tag;
	u16 place, is_address;
} entries[] = {
    {DT_SYMTAB, offsetof(struct object, symbols), 1},
    {DT_STRTAB, offsetof(struct object, names), 1},
    {DT_GNU_HASH, offsetof(struct object, gnu_hash), 1},
    {DT_HASH, offsetof(struct object, old_hash), 1},
    {DT_VERSYM, offsetof(struct object, versions), 1},
    {DT_VERNEED, offsetof(struct object, needed_versions), 1},
    {DT_VERDEF, offsetof(struct object, own_versions), 1},
    {DT_RELA, offsetof(struct object, relocations[0]), 1},
    {DT_RELASZ, offsetof(struct object, relocation_bytes[0]), 0},
    {DT_JMPREL, offsetof(struct object, relocations[1]), 1},
    {DT_PLTRELSZ, offsetof(struct object, relocation_bytes[1]), 0},
    {DT_FLAGS_1, offsetof(struct object, flags), 0},
    {DT_SONAME, offsetof(struct object, soname_at), 0},
};

static void read_entry(struct object *object, const ElfW(Dyn) * entry)
{
	u64 value = entry->d_un.d_val;
	for (u32 i = 0; i < sizeof(entries) / sizeof(*entries); i++)
		if (entry->d_tag == entries[i].tag) {
			/* glibc has made it an address, musl has not. */
			u64 base = entries[i].is_address && value < object->base ? object->base : 0;
			u64 put = value + base;
			memcpy((u8 *)object + entries[i].place, &put, sizeof(put));
		}
	object->has_rpath |= entry->d_tag == DT_RPATH;
	object->has_runpath |= entry->d_tag == DT_RUNPATH;
}

static void read_dynamic(u64 base, const ElfW(Dyn) * dynamic, struct object *object)
{
	*object = (struct object){.base = base, .start = ~0ULL, .dynamic = dynamic};
	for (const ElfW(Dyn) *entry = dynamic; entry && entry->d_tag != DT_NULL; entry++)
		read_entry(object, entry);
}

static void read_object(const struct dl_phdr_info *info, struct object *object)
{
	const ElfW(Dyn) *dynamic = 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	read_dynamic(info->dlpi_addr, dynamic, object);
	object->path = info->dlpi_name;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		u64 start = info->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
		if (segment->p_type == PT_LOAD) {
			object->start = start < object->start ? start : object->start;
			object->end = end > object->end ? end : object->end;
		} else if (segment->p_type == PT_GNU_RELRO) {
			object->relro_start = start;
			object->relro_end = end;
		}
	}
}

/* Whether the symbol at `index` is the exported `name`, in the version that is meant if none is named. */
static int is_export(const struct object *object, u32 index, const char *name)
{
	const ElfW(Sym) *symbol = &object->symbols[index];
	u32 type = symbol->st_info & 15;
	if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value || (type != STT_FUNC && type != STT_NOTYPE))
		return 0;
	if (object->versions && object->versions[index] & 0x8000) /* an older version */
		return 0;
	return is_same(object->names + symbol->st_name, name);
}

static u32 find_by_gnu_hash(const struct object *object, const char *name)
{
	const u32 *hashes = object->gnu_hash;
	u32 hash = 5381;
	for (const u8 *each = (const u8 *)name; *each; each++)
		hash = hash * 33 + *each;
	const ElfW(Addr) *filter = (const void *)(hashes + 4);
	u32 bits = 8 * sizeof(*filter);
	ElfW(Addr) word = filter[hash / bits & (hashes[2] - 1)];
	if (!hashes[0] || !(word >> hash % bits & word >> (hash >> hashes[3]) % bits & 1))
		return 0;
	const u32 *buckets = (const u32 *)(filter + hashes[2]);
	const u32 *chains = buckets + hashes[0];
	for (u32 i = buckets[hash % hashes[0]]; i >= hashes[1]; i++) {
		u32 seen = chains[i - hashes[1]];
		if ((seen | 1) == (hash | 1) && is_export(object, i, name))
			return i;
		if (seen & 1)
			break;
	}
	return 0;
}

static u32 find_by_old_hash(const struct object *object, const char *name)
{
	const u32 *hashes = object->old_hash;
	u32 hash = 0;
	for (const u8 *each = (const u8 *)name; *each; each++) {
		hash = (hash << 4) + *each;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	u32 i = hashes[0] ? hashes[2 + hash % hashes[0]] : 0;
	while (i && !is_export(object, i, name))
		i = hashes[2 + hashes[0] + i];
	return i;
}

/* The index of the symbol that a file exports as `name`; 0: it exports none. */
static u32 find_export(const struct object *object, const char *name)
{
	if (!object->symbols || !object->names)
		return 0;
	if (object->gnu_hash)
		return find_by_gnu_hash(object, name);
	return object->old_hash ? find_by_old_hash(object, name) : 0;
}

static void *exported_by(const struct object *object, const char *name)
{
	u32 index = find_export(object, name);
	return index ? (void *)(object->base + object->symbols[index].st_value) : 0;
}

/* The version of a symbol that a file needs of others; 0: any. */
static const char *needed_version(const struct object *object, u32 index)
{
	if (!object->versions || !object->needed_versions)
		return 0;
	const ElfW(Verneed) *file = object->needed_versions;
	for (;; file = (const void *)((const u8 *)file + file->vn_next)) {
		const ElfW(Vernaux) *version = (const void *)((const u8 *)file + file->vn_aux);
		for (u32 i = 0; i < file->vn_cnt; i++) {
			if (version->vna_other == (object->versions[index] & 0x7fff))
				return object->names + version->vna_name;
			version = (const void *)((const u8 *)version + version->vna_next);
		}
		if (!file->vn_next)
			return 0;
	}
}

/* The version of a symbol that a file exports; 0: it has no versions. */
static const char *own_version(const struct object *object, u32 index)
{
	if (!object->versions || !object->own_versions)
		return 0;
	const ElfW(Verdef) *version = object->own_versions;
	for (;; version = (const void *)((const u8 *)version + version->vd_next)) {
		if (version->vd_ndx == (object->versions[index] & 0x7fff))
			return object->names +
			       ((const ElfW(Verdaux) *)((const u8 *)version + version->vd_aux))->vda_name;
		if (!version->vd_next)
			return 0;
	}
}

/* Whether a file was linked with another one (DT_NEEDED). */
static int needs(const struct object *object, const struct object *other)
{
	if (!object->names || !other->names || !other->soname_at)
		return 0;
	for (const ElfW(Dyn) *entry = object->dynamic; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_NEEDED &&
		    is_same(object->names + entry->d_un.d_val, other->names + other->soname_at))
			return 1;
	return 0;
}

/* A search for the file that has an address in it. */
struct object_search {
	u64 address;
	struct object *found;
};

static int compare_object(struct dl_phdr_info *info, size_t size, void *state)
{
	const struct object_search *search = state;
	(void)size;
	read_object(info, search->found);
	return is_within(search->address, search->found->start, search->found->end);
}

/* Find the file that has `address`; returns whether there is one. */
static int find_object(u64 address, struct object *found)
{
	return dl_iterate_phdr(compare_object, &(struct object_search){address, found});
}
