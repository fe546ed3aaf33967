/* SPDX-License-Identifier: MIT
 *
 * Wraps dlsym: a program that asks it for a function of a TLS library gets the wrapper, which finds the library by its caller.
 *
 * So that each call reaches the copy of the library that was asked for, the wrapper is given only where it is the one copy of
 * its kind in the process, and what the caller is linked with, if anything. Else dlsym's answer stays as it is, and is counted.
 */
#include <elf.h>

/* A file's table of symbols, by names (DT_GNU_HASH; its hash is that of glibc's elf/dl-hash.h). */
struct symbols {
	u64 base;
	const ElfW(Sym) * table;
	const char *names;
	const u32 *hashes; /* buckets, first symbol, words of the filter, its shift; then the three tables */
};

static u64 address_in(const struct dl_phdr_info *info, const ElfW(Dyn) * entry)
{
	u64 value = entry->d_un.d_ptr; /* glibc has made it an address, musl has not */
	return value < info->dlpi_addr ? value + info->dlpi_addr : value;
}

static struct symbols symbols_of(const struct dl_phdr_info *info)
{
	struct symbols symbols = {.base = info->dlpi_addr};
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		for (; entry->d_tag != DT_NULL; entry++)
			if (entry->d_tag == DT_SYMTAB)
				symbols.table = (const void *)address_in(info, entry);
			else if (entry->d_tag == DT_STRTAB)
				symbols.names = (const void *)address_in(info, entry);
			else if (entry->d_tag == DT_GNU_HASH)
				symbols.hashes = (const void *)address_in(info, entry);
	}
	return symbols;
}

static void *exported_by(const struct symbols *symbols, const char *name)
{
	const u32 *hashes = symbols->hashes;
	u32 hash = 5381;
	for (const u8 *each = (const u8 *)name; *each; each++)
		hash = hash * 33 + *each;
	const u32 *buckets = hashes + 4 + hashes[2] * (sizeof(ElfW(Addr)) / 4);
	const u32 *chains = buckets + hashes[0];
	for (u32 i = buckets[hash % hashes[0]]; i >= hashes[1]; i++) {
		const ElfW(Sym) *symbol = &symbols->table[i];
		u32 seen = chains[i - hashes[1]];
		if ((seen | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
		    !strcmp(symbols->names + symbol->st_name, name))
			return (void *)(symbols->base + symbol->st_value);
		if (seen & 1)
			break;
	}
	return 0;
}

typedef void *lookup(void *, const char *);

struct next_dlsym {
	lookup *next;
	int is_after; /* after this file */
};

/* Find the dlsym of the first file after this one that has it, as RTLD_NEXT would. */
static int find_dlsym(struct dl_phdr_info *info, size_t size, void *state)
{
	struct next_dlsym *found = state;
	struct mapped_file own = {.address = (u64)&libraries};
	if (found->is_after) {
		struct symbols symbols = symbols_of(info);
		found->next = symbols.hashes && symbols.hashes[0] ? exported_by(&symbols, "dlsym") : 0;
	}
	found->is_after |= compare_file(info, size, &own);
	return found->next != 0;
}

static lookup *known_dlsym;

/* libc's own. It cannot be asked for by dlsym. */
static lookup *real_dlsym(void)
{
	lookup *known = __atomic_load_n(&known_dlsym, __ATOMIC_RELAXED);
	if (!known) {
		struct next_dlsym found = {0};
		dl_iterate_phdr(find_dlsym, &found);
		known = found.next;
		__atomic_store_n(&known_dlsym, known, __ATOMIC_RELAXED);
	}
	return known;
}

static void *look_up(void *handle, const char *name)
{
	void *found = real_dlsym()(handle, name);
	__asm__ volatile("" : "+r"(found)); /* no jump: dlsym looks at who called it */
	return found;
}

/* A function that is wrapped here. */
struct wrapped_function {
	enum family family;
	u32 index; /* in its family's names */
	void *wrapper;
};

/* Whether `name` is that of a wrapped function of a TLS library. */
static int is_wrapped(const char *name, struct wrapped_function *function)
{
	for (u32 family = 0; family < FAMILIES; family++)
		for (u32 i = 0; i < MOST_FUNCTIONS && family_names[family]->functions[i]; i++) {
			if (strcmp(family_names[family]->functions[i], name))
				continue;
			void *own = open_file(own_file.path, 0);
			void *wrapper = own ? look_up(own, name) : 0;
			if (own)
				close_file(own);
			*function = (struct wrapped_function){family, i, wrapper};
			return is_own(wrapper);
		}
	return 0;
}

static int is_only_one(const struct library *library)
{
	for (u32 i = 0; i < MOST_LIBRARIES; i++) {
		u64 end = __atomic_load_n(&libraries[i].end, __ATOMIC_ACQUIRE);
		if (end && libraries[i].family == library->family && &libraries[i] != library)
			return 0;
	}
	return 1;
}

/* What dlsym should answer to the code at `address` for a wrapped function. */
static void *wrapped_answer(void *handle, const char *name, const struct wrapped_function *function,
			    const void *address)
{
	void *found = look_up(handle, name);
	if (!found)
		return 0;
	struct library *linked = library_of(function->family, address);
	/* It asked for any, and the wrappers are first, also where there is no such library. */
	if (is_own(found))
		return linked && linked->functions[function->index] ? found : look_up(RTLD_NEXT, name);
	if (!reader)
		return found;
	struct library *library = learn_library(found, function->family, family_names[function->family]);
	if (library && !linked && is_only_one(library)) {
		__atomic_store_n(&fetched[function->family], library, __ATOMIC_RELEASE);
		linked = library;
	}
	if (library && linked == library && is_only_one(library))
		return function->wrapper;
	add_to(&writer->several, 1);
	return found;
}

EXPORTED void *dlsym(void *handle, const char *name)
{
	struct wrapped_function function;
	if (handle != RTLD_NEXT && is_wrapped(name, &function))
		return wrapped_answer(handle, name, &function, __builtin_return_address(0));
	JUMP return real_dlsym()(handle, name);
}
