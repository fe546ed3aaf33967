/* SPDX-License-Identifier: MIT
 *
 * .debug_info -> rows of its functions, in one pass (DWARF 5, section 7.5; DWARF 4 likewise). A program has millions of
 * entries: pyelftools takes 25 us for each. Whoever built the file wrote them, so each read is checked against the end
 * of what is read, and what is allocated is limited by the size of the input.
 */
#include "scanner.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* scanner.py reads these structures by their offsets. */
_Static_assert(sizeof(struct function_row) == 48, "FunctionRow");
_Static_assert(sizeof(struct unit_row) == 64, "ScannedUnit");
_Static_assert(sizeof(struct group_row) == 24, "FunctionGroup");
_Static_assert(sizeof(struct line_row) == 24, "LineRows");

#define MOST_CODES (1u << 16) /* of one table; gcc's largest have some hundred */
#define MOST_DEPTH 4096u
#define MOST_ROWS (1u << 25)
#define MOST_HOPS 8		      /* from a copy to the entry with the name: 2 are usual */
#define TABLE_BYTES_AGAIN (64u << 20) /* how much of .debug_abbrev is read more than once; normal files share tables */

enum tag {
	TAG_ARRAY_TYPE = 0x01,
	TAG_CLASS_TYPE = 0x02,
	TAG_ENUMERATION_TYPE = 0x04,
	TAG_FORMAL_PARAMETER = 0x05,
	TAG_POINTER_TYPE = 0x0f,
	TAG_COMPILE_UNIT = 0x11,
	TAG_STRUCTURE_TYPE = 0x13,
	TAG_SUBROUTINE_TYPE = 0x15,
	TAG_UNION_TYPE = 0x17,
	TAG_INLINED_SUBROUTINE = 0x1d,
	TAG_MODULE = 0x1e,
	TAG_BASE_TYPE = 0x24,
	TAG_SUBPROGRAM = 0x2e,
	TAG_VARIABLE = 0x34,
	TAG_INTERFACE_TYPE = 0x38,
	TAG_NAMESPACE = 0x39,
	TAG_PARTIAL_UNIT = 0x3c,
	TAG_TYPE_UNIT = 0x41,
	TAG_CALL_SITE = 0x48,
	TAG_SKELETON_UNIT = 0x4a,
	TAG_GNU_CALL_SITE = 0x4109,
};

enum attribute {
	AT_SIBLING = 0x01,
	AT_NAME = 0x03,
	AT_LOW_PC = 0x11,
	AT_LANGUAGE = 0x13,
	AT_ABSTRACT_ORIGIN = 0x31,
	AT_DECLARATION = 0x3c,
	AT_SPECIFICATION = 0x47,
	AT_RANGES = 0x55,
	AT_LINKAGE_NAME = 0x6e,
	AT_STR_OFFSETS_BASE = 0x72,
	AT_MIPS_LINKAGE_NAME = 0x2007,
	AT_GNU_DWO_ID = 0x2131,
};

enum form {
	FORM_ADDR = 0x01,
	FORM_BLOCK2 = 0x03,
	FORM_BLOCK4 = 0x04,
	FORM_DATA2 = 0x05,
	FORM_DATA4 = 0x06,
	FORM_DATA8 = 0x07,
	FORM_STRING = 0x08,
	FORM_BLOCK = 0x09,
	FORM_BLOCK1 = 0x0a,
	FORM_DATA1 = 0x0b,
	FORM_FLAG = 0x0c,
	FORM_SDATA = 0x0d,
	FORM_STRP = 0x0e,
	FORM_UDATA = 0x0f,
	FORM_REF_ADDR = 0x10,
	FORM_REF1 = 0x11,
	FORM_REF2 = 0x12,
	FORM_REF4 = 0x13,
	FORM_REF8 = 0x14,
	FORM_REF_UDATA = 0x15,
	FORM_INDIRECT = 0x16,
	FORM_SEC_OFFSET = 0x17,
	FORM_EXPRLOC = 0x18,
	FORM_FLAG_PRESENT = 0x19,
	FORM_STRX = 0x1a,
	FORM_ADDRX = 0x1b,
	FORM_REF_SUP4 = 0x1c,
	FORM_STRP_SUP = 0x1d,
	FORM_DATA16 = 0x1e,
	FORM_LINE_STRP = 0x1f,
	FORM_REF_SIG8 = 0x20,
	FORM_IMPLICIT_CONST = 0x21,
	FORM_LOCLISTX = 0x22,
	FORM_RNGLISTX = 0x23,
	FORM_REF_SUP8 = 0x24,
	FORM_STRX1 = 0x25,
	FORM_STRX2 = 0x26,
	FORM_STRX3 = 0x27,
	FORM_STRX4 = 0x28,
	FORM_ADDRX1 = 0x29,
	FORM_ADDRX2 = 0x2a,
	FORM_ADDRX3 = 0x2b,
	FORM_ADDRX4 = 0x2c,
	FORM_GNU_ADDR_INDEX = 0x1f01,
	FORM_GNU_STR_INDEX = 0x1f02,
	FORM_GNU_REF_ALT = 0x1f20,
	FORM_GNU_STRP_ALT = 0x1f21,
};

enum unit_kind {
	UNIT_COMPILE = 1,
	UNIT_TYPE = 2,
	UNIT_SKELETON = 4,
	UNIT_SPLIT_COMPILE = 5,
	UNIT_SPLIT_TYPE = 6,
};

struct cursor {
	const uint8_t *at;
	const uint8_t *end;
	int is_damaged;
};

struct form_sizes {
	unsigned offset;
	unsigned address;
	unsigned version;
};

struct spec {
	uint64_t implicit;
	uint16_t attribute;
	uint16_t form;
};

enum interest { NOT_WANTED, FUNCTION, SCOPE, UNIT };

struct abbreviation {
	uint32_t first_spec;
	uint32_t spec_count;
	int32_t fixed_bytes; /* of all attributes; -1: it depends */
	uint16_t tag;
	uint8_t has_children;
	uint8_t interest;
	uint8_t can_be_skipped; /* with its children, if it says where they end */
};

struct level {
	uint32_t row;	/* what contains the entries of this level; NO_ROW: nothing, or it waits */
	uint32_t waits; /* the scope has no row yet: it gets one with its first function */
	uint64_t entry;
	uint64_t name;
	uint16_t tag;
};

struct scanner {
	struct bytes info, abbreviations, string_offsets;
	int has_types; /* the units of DWARF 4 are type units */
	struct function_scan *scan;
	uint32_t row_room, unit_room;
	struct abbreviation *table;
	uint32_t table_room, table_used;
	struct spec *specs;
	uint32_t spec_room, spec_count;
	uint64_t table_at;
	unsigned table_offset_bytes;
	uint64_t table_bytes_left;
	uint64_t string_base;
	struct level levels[MOST_DEPTH + 1];
};

static uint64_t read_fixed(struct cursor *from, unsigned size)
{
	uint64_t value = 0;

	if ((uint64_t)(from->end - from->at) < size) {
		from->is_damaged = 1;
		from->at = from->end;
		return 0;
	}
	memcpy(&value, from->at, size);
	from->at += size;
	return le64toh(value);
}

static uint64_t read_uleb(struct cursor *from)
{
	uint64_t value = 0;

	for (unsigned shift = 0; from->at < from->end; shift += 7) {
		uint8_t byte = *from->at++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	from->is_damaged = 1;
	return 0;
}

static void skip_bytes(struct cursor *from, uint64_t size)
{
	if ((uint64_t)(from->end - from->at) < size) {
		from->is_damaged = 1;
		from->at = from->end;
	} else {
		from->at += size;
	}
}

/* How many bytes a form takes; -1: it depends. */
static int form_bytes(unsigned form, const struct form_sizes *sizes)
{
	switch (form) {
	case FORM_ADDR:
		return sizes->address;
	case FORM_FLAG_PRESENT:
	case FORM_IMPLICIT_CONST:
		return 0;
	case FORM_DATA1:
	case FORM_FLAG:
	case FORM_REF1:
	case FORM_STRX1:
	case FORM_ADDRX1:
		return 1;
	case FORM_DATA2:
	case FORM_REF2:
	case FORM_STRX2:
	case FORM_ADDRX2:
		return 2;
	case FORM_STRX3:
	case FORM_ADDRX3:
		return 3;
	case FORM_DATA4:
	case FORM_REF4:
	case FORM_REF_SUP4:
	case FORM_STRX4:
	case FORM_ADDRX4:
		return 4;
	case FORM_DATA8:
	case FORM_REF8:
	case FORM_REF_SIG8:
	case FORM_REF_SUP8:
		return 8;
	case FORM_DATA16:
		return 16;
	case FORM_REF_ADDR:
		return sizes->version < 3 ? sizes->address : sizes->offset;
	case FORM_STRP:
	case FORM_SEC_OFFSET:
	case FORM_STRP_SUP:
	case FORM_LINE_STRP:
	case FORM_GNU_REF_ALT:
	case FORM_GNU_STRP_ALT:
		return sizes->offset;
	default:
		return -1;
	}
}

static void skip_string(struct cursor *from)
{
	const uint8_t *end = memchr(from->at, 0, from->end - from->at);

	if (!end)
		from->is_damaged = 1;
	from->at = end ? end + 1 : from->end;
}

/* Reads an attribute. Its value is a number; of a string in the entry, where it is; of blocks, nothing. */
static uint64_t read_form(struct cursor *from, unsigned form, const struct form_sizes *sizes, const uint8_t *start)
{
	int size = form_bytes(form, sizes);
	uint64_t at = from->at - start;

	if (size == 16) {
		skip_bytes(from, 16);
		return 0;
	}
	if (size >= 0)
		return read_fixed(from, size);
	switch (form) {
	case FORM_STRING:
		skip_string(from);
		return at;
	case FORM_BLOCK:
	case FORM_EXPRLOC:
		skip_bytes(from, read_uleb(from));
		return 0;
	case FORM_BLOCK1:
		skip_bytes(from, read_fixed(from, 1));
		return 0;
	case FORM_BLOCK2:
		skip_bytes(from, read_fixed(from, 2));
		return 0;
	case FORM_BLOCK4:
		skip_bytes(from, read_fixed(from, 4));
		return 0;
	case FORM_SDATA:
	case FORM_UDATA:
	case FORM_REF_UDATA:
	case FORM_STRX:
	case FORM_ADDRX:
	case FORM_LOCLISTX:
	case FORM_RNGLISTX:
	case FORM_GNU_ADDR_INDEX:
	case FORM_GNU_STR_INDEX:
		return read_uleb(from);
	default: /* DW_FORM_indirect, too: no compiler writes it */
		from->is_damaged = 1;
		return 0;
	}
}

static uint64_t string_place(struct scanner *of, unsigned form, uint64_t value, const struct form_sizes *sizes)
{
	uint64_t section = STRING_IN_STR;

	switch (form) {
	case FORM_STRING:
		section = STRING_IN_ENTRY;
		break;
	case FORM_STRP:
		break;
	case FORM_LINE_STRP:
		section = STRING_IN_LINE_STR;
		break;
	case FORM_STRP_SUP:
	case FORM_GNU_STRP_ALT:
		section = STRING_IN_OTHER_FILE;
		break;
	case FORM_STRX:
	case FORM_STRX1:
	case FORM_STRX2:
	case FORM_STRX3:
	case FORM_STRX4:
	case FORM_GNU_STR_INDEX: {
		uint64_t size = of->string_offsets.size;
		struct cursor from = {of->string_offsets.start, of->string_offsets.start + size, 0};

		if (value > size || of->string_base > size || value * sizes->offset > size - of->string_base)
			return NO_OFFSET;
		skip_bytes(&from, of->string_base + value * sizes->offset);
		value = read_fixed(&from, sizes->offset);
		if (from.is_damaged)
			return NO_OFFSET;
		break;
	}
	default:
		return NO_OFFSET;
	}
	return value >> STRING_SECTION_SHIFT ? NO_OFFSET : section << STRING_SECTION_SHIFT | value;
}

static uint64_t reference_place(unsigned form, uint64_t value, uint64_t unit)
{
	switch (form) {
	case FORM_REF_ADDR:
		return value;
	case FORM_REF1:
	case FORM_REF2:
	case FORM_REF4:
	case FORM_REF8:
	case FORM_REF_UDATA:
		return unit + value;
	default: /* in another file */
		return NO_OFFSET;
	}
}

/* Makes room for one more element; returns 0 if there is no memory. */
static int make_room(void **array, uint32_t *room, uint32_t count, size_t size)
{
	if (count < *room)
		return 1;
	uint32_t more = *room ? *room * 2 : 1024;
	void *moved = realloc(*array, more * size);

	if (!moved)
		return 0;
	*array = moved;
	*room = more;
	return 1;
}

static uint8_t interest_of(unsigned tag)
{
	switch (tag) {
	case TAG_SUBPROGRAM:
	case TAG_INLINED_SUBROUTINE:
		return FUNCTION;
	case TAG_NAMESPACE:
	case TAG_CLASS_TYPE:
	case TAG_STRUCTURE_TYPE:
	case TAG_UNION_TYPE:
	case TAG_MODULE:
	case TAG_INTERFACE_TYPE:
	case TAG_ENUMERATION_TYPE:
		return SCOPE;
	case TAG_COMPILE_UNIT:
	case TAG_PARTIAL_UNIT:
	case TAG_TYPE_UNIT:
	case TAG_SKELETON_UNIT:
		return UNIT;
	default:
		return NOT_WANTED;
	}
}

static int can_be_skipped(unsigned tag)
{
	return tag == TAG_ARRAY_TYPE || tag == TAG_SUBROUTINE_TYPE || tag == TAG_CALL_SITE || tag == TAG_GNU_CALL_SITE;
}

/* Reads the attributes of an abbreviation; returns 0 if there is no memory. */
static int read_specs(struct scanner *of, struct cursor *from, struct abbreviation *into,
		      const struct form_sizes *sizes)
{
	into->first_spec = of->spec_count;
	for (;;) {
		struct spec spec = {0};
		uint64_t attribute = read_uleb(from), form = read_uleb(from);

		if (form == FORM_IMPLICIT_CONST)
			spec.implicit = read_uleb(from);
		if ((!attribute && !form) || from->is_damaged)
			break;
		spec.attribute = attribute > UINT16_MAX ? UINT16_MAX : attribute;
		spec.form = form > UINT16_MAX ? UINT16_MAX : form;
		int size = form_bytes(spec.form, sizes);

		if (size < 0 || into->fixed_bytes < 0 || into->fixed_bytes > 1 << 20)
			into->fixed_bytes = -1;
		else
			into->fixed_bytes += size;
		if (spec.attribute == AT_SIBLING && can_be_skipped(into->tag))
			into->can_be_skipped = 1;
		if (!make_room((void **)&of->specs, &of->spec_room, of->spec_count, sizeof(spec)))
			return 0;
		of->specs[of->spec_count++] = spec;
	}
	into->spec_count = of->spec_count - into->first_spec;
	return 1;
}

/* Reads the abbreviations of a unit; returns 0 if they are damaged or there is no memory. */
static int read_table(struct scanner *of, uint64_t at, const struct form_sizes *sizes)
{
	unsigned key = sizes->offset << 16 | sizes->address << 8 | sizes->version;

	if (at == of->table_at && key == of->table_offset_bytes)
		return 1;
	of->table_at = NO_OFFSET;
	if (at >= of->abbreviations.size || of->table_bytes_left == 0)
		return 0;
	if (of->table_used)
		memset(of->table, 0, of->table_used * sizeof(*of->table));
	of->table_used = 0;
	of->spec_count = 0;
	struct cursor from = {of->abbreviations.start + at, of->abbreviations.start + of->abbreviations.size, 0};
	const uint8_t *start = from.at;

	for (uint64_t code; (code = read_uleb(&from)) != 0;) {
		if (code >= MOST_CODES)
			return 0;
		while (code >= of->table_room) {
			uint32_t before = of->table_room;

			if (!make_room((void **)&of->table, &of->table_room, before, sizeof(*of->table)))
				return 0;
			memset(of->table + before, 0, (of->table_room - before) * sizeof(*of->table));
		}
		if (code >= of->table_used)
			of->table_used = code + 1;
		struct abbreviation *into = &of->table[code];
		uint64_t tag = read_uleb(&from);

		memset(into, 0, sizeof(*into));
		into->tag = tag > UINT16_MAX ? UINT16_MAX : tag;
		into->has_children = read_fixed(&from, 1);
		into->interest = interest_of(into->tag);
		if (!read_specs(of, &from, into, sizes) || from.is_damaged)
			return 0;
	}
	uint64_t size = from.at - start;

	of->table_bytes_left = size < of->table_bytes_left ? of->table_bytes_left - size : 0;
	of->table_at = at;
	of->table_offset_bytes = key;
	return !from.is_damaged;
}

static uint32_t add_row(struct scanner *of, const struct function_row *row)
{
	struct function_scan *scan = of->scan;

	if (scan->row_count >= MOST_ROWS ||
	    !make_room((void **)&scan->rows, &of->row_room, scan->row_count, sizeof(*row)))
		return NO_ROW;
	scan->rows[scan->row_count] = *row;
	return scan->row_count++;
}

/* Returns the row of what contains the entries at a depth; gives the scopes around them rows. */
static uint32_t scope_at(struct scanner *of, unsigned depth, uint32_t unit)
{
	unsigned first = depth;

	while (first > 0 && of->levels[first].waits)
		first--;
	uint32_t row = of->levels[first].row;

	for (unsigned each = first + 1; each <= depth; each++) {
		struct level *level = &of->levels[each];

		row = add_row(of, &(struct function_row){.entry = level->entry,
							 .name = level->name,
							 .linkage_name = NO_OFFSET,
							 .origin = NO_OFFSET,
							 .unit = unit,
							 .scope = row,
							 .group = NO_ROW,
							 .tag = level->tag});
		level->row = row;
		level->waits = 0;
	}
	return row;
}

/* The attributes of one entry that count here. */
struct found {
	struct function_row row;
	uint64_t sibling; /* its offset, or NO_OFFSET */
	uint64_t string_base;
	uint64_t id;
	uint16_t language;
};

static void read_attributes(struct scanner *of, struct cursor *from, const struct abbreviation *by, uint64_t unit,
			    const struct form_sizes *sizes, struct found *into)
{
	const struct spec *spec = of->specs + by->first_spec;

	for (const struct spec *end = spec + by->spec_count; spec < end && !from->is_damaged; spec++) {
		uint64_t value = read_form(from, spec->form, sizes, of->info.start);

		if (spec->form == FORM_IMPLICIT_CONST)
			value = spec->implicit;
		switch (spec->attribute) {
		case AT_SIBLING:
			into->sibling = reference_place(spec->form, value, unit);
			break;
		case AT_NAME:
			into->row.name = string_place(of, spec->form, value, sizes);
			break;
		case AT_LINKAGE_NAME:
		case AT_MIPS_LINKAGE_NAME:
			into->row.linkage_name = string_place(of, spec->form, value, sizes);
			break;
		case AT_ABSTRACT_ORIGIN:
		case AT_SPECIFICATION:
			into->row.origin = reference_place(spec->form, value, unit);
			break;
		case AT_LOW_PC:
			/* Linkers write 0, -1 or -2 for code that they removed. */
			if (spec->form != FORM_ADDR || (value != 0 && value < UINT64_MAX - 1))
				into->row.flags |= ROW_HAS_CODE;
			break;
		case AT_RANGES:
			into->row.flags |= ROW_HAS_CODE;
			break;
		case AT_DECLARATION:
			into->row.flags |= ROW_IS_DECLARATION;
			break;
		case AT_LANGUAGE:
			into->language = value;
			break;
		case AT_STR_OFFSETS_BASE:
			into->string_base = value;
			break;
		case AT_GNU_DWO_ID:
			into->id = value;
			break;
		}
	}
}

/* Skips the rest of an entry; returns 1 if its children are skipped, too. */
static int skip_attributes(struct scanner *of, struct cursor *from, const struct abbreviation *by, uint64_t unit,
			   const struct form_sizes *sizes)
{
	if (by->fixed_bytes >= 0 && !by->can_be_skipped) {
		skip_bytes(from, by->fixed_bytes);
		return 0;
	}
	const struct spec *spec = of->specs + by->first_spec;
	uint64_t sibling = NO_OFFSET;

	for (const struct spec *end = spec + by->spec_count; spec < end && !from->is_damaged; spec++) {
		uint64_t value = read_form(from, spec->form, sizes, of->info.start);

		if (spec->attribute == AT_SIBLING)
			sibling = reference_place(spec->form, value, unit);
	}
	if (!by->can_be_skipped || !by->has_children || sibling <= (uint64_t)(from->at - of->info.start) ||
	    sibling >= (uint64_t)(from->end - of->info.start))
		return 0;
	from->at = of->info.start + sibling;
	return 1;
}

/* Reads the entries of a unit; returns 0 if they are damaged. */
static int read_entries(struct scanner *of, struct cursor *from, uint32_t index, const struct form_sizes *sizes)
{
	struct unit_row *unit = &of->scan->units[index];
	unsigned depth = 0;

	of->levels[0] = (struct level){.row = NO_ROW};
	while (from->at < from->end) {
		uint64_t entry = from->at - of->info.start, code = read_uleb(from);

		if (!code) {
			if (depth <= 1)
				break;
			depth--;
			continue;
		}
		if (code >= of->table_used || !of->table[code].tag)
			return 0;
		const struct abbreviation *by = &of->table[code];
		struct level inside = {.row = of->levels[depth].waits ? NO_ROW : of->levels[depth].row};

		if (by->interest == NOT_WANTED) {
			unit->has_types |= by->tag == TAG_FORMAL_PARAMETER || by->tag == TAG_BASE_TYPE ||
					   by->tag == TAG_POINTER_TYPE || by->tag == TAG_VARIABLE;
			if (by->tag == TAG_FORMAL_PARAMETER && inside.row != NO_ROW)
				of->scan->rows[inside.row].flags |= ROW_HAS_PARAMETERS;
			if (skip_attributes(of, from, by, unit->start, sizes))
				continue;
			if (of->levels[depth].waits && by->has_children)
				inside = (struct level){.row = scope_at(of, depth, index)};
		} else {
			struct found found = {.row = {.entry = entry,
						      .name = NO_OFFSET,
						      .linkage_name = NO_OFFSET,
						      .origin = NO_OFFSET,
						      .unit = index,
						      .group = NO_ROW,
						      .tag = by->tag},
					      .sibling = NO_OFFSET};

			read_attributes(of, from, by, unit->start, sizes, &found);
			if (by->interest == FUNCTION) {
				found.row.scope = scope_at(of, depth, index);
				inside.row = add_row(of, &found.row);
				if (inside.row == NO_ROW)
					return 0;
			} else if (by->interest == SCOPE) {
				inside = (struct level){
				    .row = NO_ROW,
				    .waits = 1,
				    .entry = entry,
				    .name = found.row.name,
				    .tag = by->tag,
				};
			} else if (depth == 0) {
				unit->language = found.language;
				if (found.id)
					unit->id = found.id;
				if (found.string_base)
					of->string_base = found.string_base;
			}
		}
		if (from->is_damaged)
			return 0;
		if (by->has_children) {
			if (depth >= MOST_DEPTH)
				return 0;
			of->levels[++depth] = inside;
		} else if (depth == 0) {
			break;
		}
	}
	return 1;
}

static const struct function_row *row_at(const struct function_scan *scan, uint64_t entry, uint32_t first, uint32_t end)
{
	while (first < end) {
		uint32_t middle = first + (end - first) / 2;

		if (scan->rows[middle].entry < entry)
			first = middle + 1;
		else
			end = middle;
	}
	return first < scan->row_count && scan->rows[first].entry == entry ? &scan->rows[first] : NULL;
}

/* Drops the declarations that no function of the unit refers to: a C++ unit declares thousands. */
static int drop_declarations(struct function_scan *scan, uint32_t first)
{
	uint32_t count = scan->row_count - first, into = first;
	uint32_t *places = malloc((count + 1) * sizeof(*places));
	uint8_t *used = calloc(count + 1, 1);

	if (!places || !used) {
		free(places);
		free(used);
		return 0;
	}
	for (uint32_t each = first; each < scan->row_count; each++) {
		const struct function_row *row = &scan->rows[each], *origin;

		if (row->origin == NO_OFFSET)
			continue;
		origin = row_at(scan, row->origin, first, scan->row_count);
		if (origin)
			used[origin - scan->rows - first] = 1;
	}
	/* What contains something that stays must stay: scopes come before what is in them. */
	for (uint32_t each = scan->row_count; each-- > first;) {
		const struct function_row *row = &scan->rows[each];
		int is_function = row->tag == TAG_SUBPROGRAM || row->tag == TAG_INLINED_SUBROUTINE;

		if (is_function && !(row->flags & ROW_IS_DECLARATION))
			used[each - first] = 1;
		if (used[each - first] && row->scope != NO_ROW)
			used[row->scope - first] = 1;
	}
	for (uint32_t each = first; each < scan->row_count; each++) {
		if (!used[each - first])
			continue;
		struct function_row row = scan->rows[each];

		if (row.scope != NO_ROW)
			row.scope = places[row.scope - first];
		places[each - first] = into;
		scan->rows[into++] = row;
	}
	scan->row_count = into;
	free(places);
	free(used);
	return 1;
}

/* Reads the unit at an offset; returns the offset of the next one, or 0 if there is none. */
static uint64_t read_unit(struct scanner *of, uint64_t start)
{
	struct function_scan *scan = of->scan;
	const uint8_t *info_end = of->info.start + of->info.size;
	struct cursor from = {of->info.start + start, info_end, 0};
	struct form_sizes sizes = {.offset = 4};
	uint64_t length = read_fixed(&from, 4);

	if (length == 0xffffffff) {
		length = read_fixed(&from, 8);
		sizes.offset = 8;
	}
	if (from.is_damaged || length > (uint64_t)(info_end - from.at)) {
		scan->is_whole = 0;
		return 0;
	}
	from.end = from.at + length;
	struct unit_row unit = {.start = start, .end = from.end - of->info.start, .kind = UNIT_COMPILE};

	unit.version = sizes.version = read_fixed(&from, 2);
	if (unit.version >= 5) {
		unit.kind = read_fixed(&from, 1);
		sizes.address = read_fixed(&from, 1);
		unit.abbreviations = read_fixed(&from, sizes.offset);
		if (unit.kind == UNIT_SKELETON || unit.kind == UNIT_SPLIT_COMPILE || unit.kind == UNIT_TYPE ||
		    unit.kind == UNIT_SPLIT_TYPE)
			unit.id = read_fixed(&from, 8);
		if (unit.kind == UNIT_TYPE || unit.kind == UNIT_SPLIT_TYPE)
			unit.type_entry = start + read_fixed(&from, sizes.offset);
	} else {
		unit.abbreviations = read_fixed(&from, sizes.offset);
		sizes.address = read_fixed(&from, 1);
		if (of->has_types) {
			unit.kind = UNIT_TYPE;
			unit.id = read_fixed(&from, 8);
			unit.type_entry = start + read_fixed(&from, sizes.offset);
		}
	}
	unit.address_bytes = sizes.address;
	unit.offset_bytes = sizes.offset;
	unit.first_entry = from.at - of->info.start;
	unit.first_row = scan->row_count;
	if (!make_room((void **)&scan->units, &of->unit_room, scan->unit_count, sizeof(unit)))
		return 0;
	uint32_t index = scan->unit_count++;

	scan->units[index] = unit;
	/* A split unit has no attribute for it: its part of the table comes after a header. */
	of->string_base = unit.version >= 5 ? 2 * sizes.offset : 0;
	int is_known = unit.version >= 2 && unit.version <= 5 && sizes.address <= 8 && !from.is_damaged;

	if (!is_known || !read_table(of, unit.abbreviations, &sizes) || !read_entries(of, &from, index, &sizes))
		scan->is_whole = 0;
	if (!drop_declarations(scan, unit.first_row))
		return 0;
	return unit.end;
}

struct slot {
	uint64_t name;
	uint32_t scope; /* of the name, if that is not unique by itself */
	uint32_t group; /* counted from 1; 0: the slot is free */
};

struct slots {
	struct slot *slots;
	uint64_t count; /* a power of two, twice the groups at least */
};

static uint64_t mixed(uint64_t value)
{
	value ^= value >> 31;
	value *= 0x9e3779b97f4a7c15u;
	return value ^ value >> 29;
}

static const struct function_row *origin_of(const struct function_scan *scan, const struct function_row *row)
{
	if (row->origin == NO_OFFSET)
		return NULL;
	const struct unit_row *unit = &scan->units[row->unit];

	if (row->origin >= unit->start && row->origin < unit->end) {
		uint32_t last = row->unit + 1 < scan->unit_count ? unit[1].first_row : scan->row_count;

		return row_at(scan, row->origin, unit->first_row, last);
	}
	return row_at(scan, row->origin, 0, scan->row_count);
}

/* Returns the slot of a name, which is free if it is new. */
static struct slot *slot_of(const struct slots *in, uint64_t name, uint32_t scope)
{
	uint64_t at = mixed(name + scope) & (in->count - 1);

	while (in->slots[at].group && (in->slots[at].name != name || in->slots[at].scope != scope))
		at = (at + 1) & (in->count - 1);
	return &in->slots[at];
}

/* Doubles the slots; returns 0 if there is no memory. */
static int add_slots(struct slots *to)
{
	struct slots more = {.count = to->count ? to->count * 2 : 4096};

	more.slots = calloc(more.count, sizeof(*more.slots));
	if (!more.slots)
		return 0;
	for (uint64_t each = 0; each < to->count; each++) {
		const struct slot *slot = &to->slots[each];

		if (slot->group)
			*slot_of(&more, slot->name, slot->scope) = *slot;
	}
	free(to->slots);
	*to = more;
	return 1;
}

/* Gives a row with code the group of its function; returns 0 if there is no memory. */
static int group_row(struct function_scan *scan, uint32_t index, struct slots *slots, uint32_t *room)
{
	struct function_row *row = &scan->rows[index];
	const struct function_row *root = row;
	uint64_t name = row->name, linkage_name = row->linkage_name;

	for (int hop = 0; hop < MOST_HOPS; hop++) {
		const struct function_row *next = origin_of(scan, root);

		if (!next)
			break;
		root = next;
		linkage_name = linkage_name != NO_OFFSET ? linkage_name : root->linkage_name;
		name = root->name != NO_OFFSET ? root->name : name;
	}
	uint64_t key = linkage_name != NO_OFFSET ? linkage_name : name;
	uint32_t scope = linkage_name != NO_OFFSET ? NO_ROW : root->scope;

	if (key == NO_OFFSET)
		return 1;
	struct slot *slot = slot_of(slots, key, scope);

	if (!slot->group) {
		if (!make_room((void **)&scan->groups, room, scan->group_count, sizeof(*scan->groups)))
			return 0;
		scan->groups[scan->group_count++] = (struct group_row){
		    .name = name, .linkage_name = linkage_name, .row = root - scan->rows, .copy = index};
		*slot = (struct slot){.name = key, .scope = scope, .group = scan->group_count};
	}
	row->group = slot->group - 1;
	return 2 * (uint64_t)scan->group_count < slots->count || add_slots(slots);
}

/* Gives all rows with code the groups of their functions; returns 0 if there is no memory. */
static int group_rows(struct function_scan *scan)
{
	struct slots slots = {0};
	uint32_t room = 0;
	int is_done = add_slots(&slots);

	for (uint32_t each = 0; each < scan->row_count && is_done; each++)
		if (scan->rows[each].flags & ROW_HAS_CODE)
			is_done = group_row(scan, each, &slots, &room);
	free(slots.slots);
	return is_done;
}

/* Returns the functions of .debug_info, or NULL if there is no memory. The bytes are not kept. */
struct function_scan *function_scan_new(struct bytes info, struct bytes abbreviations, struct bytes string_offsets,
					int has_types)
{
	struct scanner *of = calloc(1, sizeof(*of));
	struct function_scan *scan = calloc(1, sizeof(*scan));

	if (!of || !scan) {
		free(of);
		free(scan);
		return NULL;
	}
	scan->is_whole = 1;
	of->info = info;
	of->abbreviations = abbreviations;
	of->string_offsets = string_offsets;
	of->has_types = has_types;
	of->scan = scan;
	of->table_at = NO_OFFSET;
	of->table_bytes_left = abbreviations.size + TABLE_BYTES_AGAIN;
	for (uint64_t at = 0; at < info.size && (at = read_unit(of, at)) != 0;)
		;
	free(of->table);
	free(of->specs);
	free(of);
	if (!group_rows(scan)) {
		function_scan_free(scan);
		return NULL;
	}
	return scan;
}

void function_scan_free(struct function_scan *scan)
{
	free(scan->rows);
	free(scan->units);
	free(scan->groups);
	free(scan);
}

uint32_t function_scan_copies(const struct function_scan *scan, const uint8_t *wanted, uint32_t *rows)
{
	uint32_t count = 0;

	for (uint32_t each = 0; each < scan->row_count; each++) {
		uint32_t group = scan->rows[each].group;

		if (group < scan->group_count && wanted[group])
			rows[count++] = each;
	}
	return count;
}
