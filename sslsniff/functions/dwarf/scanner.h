/* SPDX-License-Identifier: MIT
 *
 * The contract between scanner.c, lines.c and scanner.py.
 */
#ifndef SSLSNIFF_DWARF_SCANNER_H
#define SSLSNIFF_DWARF_SCANNER_H

#include <stdint.h>

#define NO_OFFSET UINT64_MAX
#define NO_ROW UINT32_MAX
#define STRING_SECTION_SHIFT 56 /* a name's place: which section has it, and its offset there */

enum string_section {
	STRING_IN_ENTRY = 0,
	STRING_IN_STR = 1,
	STRING_IN_LINE_STR = 2,
	STRING_IN_OTHER_FILE = 3,
};

enum row_flag {
	ROW_HAS_CODE = 1,
	ROW_IS_DECLARATION = 2,
	ROW_HAS_PARAMETERS = 4,
};

struct bytes {
	const uint8_t *start;
	uint64_t size;
};

/* A subprogram, an inlined subroutine, or a scope (namespace, class) that a subprogram is in. */
struct function_row {
	uint64_t entry; /* offset in .debug_info */
	uint64_t name;	/* place, or NO_OFFSET */
	uint64_t linkage_name;
	uint64_t origin; /* offset of the entry with the rest: abstract origin or specification */
	uint32_t unit;
	uint32_t scope; /* row of what contains it, or NO_ROW */
	uint32_t group; /* of the function whose code it is, or NO_ROW */
	uint16_t tag;
	uint16_t flags;
};

struct unit_row {
	uint64_t start; /* offset of its header in .debug_info */
	uint64_t end;
	uint64_t first_entry;
	uint64_t abbreviations;
	uint64_t id;	     /* of split DWARF, or a type unit's signature; else 0 */
	uint64_t type_entry; /* a type unit's type; else 0 */
	uint32_t first_row;  /* its rows end at the next unit's first */
	uint16_t version;
	uint16_t language; /* 0: unknown */
	uint8_t kind;	   /* DW_UT_..., 1 for DWARF 4 */
	uint8_t address_bytes;
	uint8_t offset_bytes;
	uint8_t has_types; /* or variables: the debug info is more than names and lines */
	uint8_t padding[4];
};

/* Copies of one function: their names are the same string. */
struct group_row {
	uint64_t name;
	uint64_t linkage_name;
	uint32_t row;  /* the one that has the name */
	uint32_t copy; /* a row with code */
};

struct function_scan {
	struct function_row *rows;
	struct unit_row *units;
	struct group_row *groups;
	uint32_t row_count;
	uint32_t unit_count;
	uint32_t group_count;
	uint32_t is_whole; /* 0: a unit was damaged */
};

/* `has_types`: `info` is .debug_types of DWARF 4. */
struct function_scan *function_scan_new(struct bytes info, struct bytes abbreviations, struct bytes string_offsets,
					int has_types);
void function_scan_free(struct function_scan *scan);

/* Writes the rows with code of the groups whose byte in `wanted` is not 0; returns how many. Room for all is needed. */
uint32_t function_scan_copies(const struct function_scan *scan, const uint8_t *wanted, uint32_t *rows);

enum line_flag {
	LINE_IS_STATEMENT = 1,
	LINE_ENDS_SEQUENCE = 2,
	LINE_ENDS_PROLOGUE = 4,
};

struct line_row {
	uint64_t address;
	uint32_t file;
	uint32_t line;
	uint16_t column;
	uint16_t flags;
	uint32_t padding;
};

struct line_rows {
	struct line_row *rows; /* sequences in the order of their addresses */
	uint64_t count;
};

struct line_form {
	uint8_t address_bytes;
	uint8_t instruction_bytes;
	uint8_t operations;
	uint8_t is_statement;
	int8_t line_base;
	uint8_t line_range;
	uint8_t opcode_base;
	uint8_t operand_counts[255]; /* of standard opcodes, from 1 on */
};

/* Sequences that begin outside of lowest..highest are left out: their code was removed. */
struct line_rows *line_rows_new(struct bytes program, const struct line_form *form, uint64_t lowest, uint64_t highest);
void line_rows_free(struct line_rows *lines);

#endif
