/* SPDX-License-Identifier: MIT
 *
 * A line number program (DWARF 5, section 6.2.5; the same since DWARF 2) -> rows. pyelftools takes 30 us for each row,
 * and a unit of Rust has 100,000. Each read is checked against the program's end.
 */
#include "scanner.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum standard_opcode {
	LNS_COPY = 1,
	LNS_ADVANCE_PC,
	LNS_ADVANCE_LINE,
	LNS_SET_FILE,
	LNS_SET_COLUMN,
	LNS_NEGATE_STMT,
	LNS_SET_BASIC_BLOCK,
	LNS_CONST_ADD_PC,
	LNS_FIXED_ADVANCE_PC,
	LNS_SET_PROLOGUE_END,
};

enum extended_opcode { LNE_END_SEQUENCE = 1, LNE_SET_ADDRESS = 2 };

struct sequence {
	uint64_t start;
	uint64_t first;
	uint64_t count;
};

struct line_reader {
	const uint8_t *at, *end;
	const struct line_form *form;
	struct line_row *rows;
	uint64_t count, room;
	struct sequence *sequences;
	uint64_t sequence_count, sequence_room;
	struct line_row state;
	uint64_t first; /* row of the sequence */
	uint64_t lowest, highest;
	int failed;
};

static uint64_t number(struct line_reader *from, int is_signed)
{
	uint64_t value = 0;

	for (unsigned shift = 0; from->at < from->end;) {
		uint8_t byte = *from->at++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (!(byte & 0x80)) {
			if (is_signed && shift < 64 && byte & 0x40)
				value |= UINT64_MAX << shift;
			return value;
		}
	}
	return 0;
}

static uint64_t fixed(struct line_reader *from, uint64_t size)
{
	uint64_t value = 0;

	if ((uint64_t)(from->end - from->at) < size) {
		from->at = from->end;
		return 0;
	}
	memcpy(&value, from->at, size > 8 ? 8 : size);
	from->at += size;
	return le64toh(value);
}

static void reset(struct line_reader *into)
{
	into->state = (struct line_row){
	    .file = 1,
	    .line = 1,
	    .flags = into->form->is_statement ? LINE_IS_STATEMENT : 0,
	};
	into->first = into->count;
}

static void add_line(struct line_reader *into)
{
	if (into->count == into->room) {
		uint64_t room = into->room ? into->room * 2 : 1024;
		struct line_row *moved = realloc(into->rows, room * sizeof(*moved));

		if (!moved) {
			into->failed = 1;
			return;
		}
		into->rows = moved;
		into->room = room;
	}
	into->rows[into->count++] = into->state;
	into->state.flags &= LINE_IS_STATEMENT;
}

static void end_sequence(struct line_reader *into)
{
	into->state.flags |= LINE_ENDS_SEQUENCE;
	add_line(into);
	if (into->failed)
		return;
	uint64_t start = into->rows[into->first].address;

	if (start < into->lowest || start >= into->highest || into->state.address < start) {
		into->count = into->first;
	} else {
		if (into->sequence_count == into->sequence_room) {
			uint64_t room = into->sequence_room ? into->sequence_room * 2 : 64;
			struct sequence *moved = realloc(into->sequences, room * sizeof(*moved));

			if (!moved) {
				into->failed = 1;
				return;
			}
			into->sequences = moved;
			into->sequence_room = room;
		}
		into->sequences[into->sequence_count++] =
		    (struct sequence){start, into->first, into->count - into->first};
	}
	reset(into);
}

static void advance(struct line_reader *into, uint64_t operations)
{
	into->state.address += operations * into->form->instruction_bytes;
}

static void extended(struct line_reader *from)
{
	uint64_t size = number(from, 0);

	if (!size || size > (uint64_t)(from->end - from->at)) {
		from->at = size ? from->end : from->at;
		return;
	}
	const uint8_t *next = from->at + size;

	switch (*from->at++) {
	case LNE_END_SEQUENCE:
		end_sequence(from);
		break;
	case LNE_SET_ADDRESS:
		from->state.address = fixed(from, size - 1);
		break;
	}
	from->at = next;
}

static void standard(struct line_reader *from, uint8_t opcode)
{
	switch (opcode) {
	case LNS_COPY:
		add_line(from);
		break;
	case LNS_ADVANCE_PC:
		advance(from, number(from, 0));
		break;
	case LNS_ADVANCE_LINE:
		from->state.line += number(from, 1);
		break;
	case LNS_SET_FILE:
		from->state.file = number(from, 0);
		break;
	case LNS_SET_COLUMN:
		from->state.column = number(from, 0);
		break;
	case LNS_NEGATE_STMT:
		from->state.flags ^= LINE_IS_STATEMENT;
		break;
	case LNS_CONST_ADD_PC:
		advance(from, (255 - from->form->opcode_base) / from->form->line_range);
		break;
	case LNS_FIXED_ADVANCE_PC:
		from->state.address += fixed(from, 2);
		break;
	case LNS_SET_PROLOGUE_END:
		from->state.flags |= LINE_ENDS_PROLOGUE;
		break;
	default:
		for (uint8_t each = from->form->operand_counts[opcode - 1]; each > 0; each--)
			number(from, 0);
	}
}

static int by_start(const void *left, const void *right)
{
	const struct sequence *one = left, *other = right;

	if (one->start != other->start)
		return one->start < other->start ? -1 : 1;
	return one->first < other->first ? -1 : one->first > other->first;
}

/* Puts the sequences in the order of their addresses; returns 0 if there is no memory. */
static int sort(struct line_reader *lines)
{
	uint64_t kept = 0;

	for (uint64_t each = 0; each < lines->sequence_count; each++)
		kept += lines->sequences[each].count;
	struct line_row *sorted = malloc((kept + 1) * sizeof(*sorted));

	if (!sorted)
		return 0;
	if (lines->sequence_count)
		qsort(lines->sequences, lines->sequence_count, sizeof(*lines->sequences), by_start);
	uint64_t at = 0;

	for (uint64_t each = 0; each < lines->sequence_count; each++) {
		const struct sequence *sequence = &lines->sequences[each];

		memcpy(sorted + at, lines->rows + sequence->first, sequence->count * sizeof(*sorted));
		at += sequence->count;
	}
	free(lines->rows);
	lines->rows = sorted;
	lines->count = kept;
	return 1;
}

struct line_rows *line_rows_new(struct bytes program, const struct line_form *form, uint64_t lowest, uint64_t highest)
{
	struct line_reader from = {.at = program.start,
				   .end = program.start + program.size,
				   .form = form,
				   .lowest = lowest,
				   .highest = highest};
	struct line_rows *lines = malloc(sizeof(*lines));

	if (!lines || !form->line_range)
		from.at = from.end;
	reset(&from);
	while (from.at < from.end && !from.failed) {
		uint8_t opcode = *from.at++;

		if (opcode >= form->opcode_base) {
			unsigned value = opcode - form->opcode_base;

			advance(&from, value / form->line_range);
			from.state.line += form->line_base + value % form->line_range;
			add_line(&from);
		} else if (opcode) {
			standard(&from, opcode);
		} else {
			extended(&from);
		}
	}
	if (!lines || from.failed || !sort(&from)) {
		free(from.rows);
		free(from.sequences);
		free(lines);
		return NULL;
	}
	free(from.sequences);
	*lines = (struct line_rows){from.rows, from.count};
	return lines;
}

void line_rows_free(struct line_rows *lines)
{
	free(lines->rows);
	free(lines);
}
