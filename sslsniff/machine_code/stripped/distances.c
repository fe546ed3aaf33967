/* SPDX-License-Identifier: MIT
 *
 * Finds the instructions that refer to addresses within ranges: distances.py.
 *
 * Every byte of code may be the first of a distance, or of an address. So the search looks at all,
 * 16 at a time, and only where one leads into a range at the bytes before it.
 */

#include <stdint.h>
#include <string.h>

enum { DISTANCE_BYTES = 4, STEP_BYTES = 16 };

/* What may come before a distance; enum ReferenceForm in references.py has the same values. */
enum form {
	LOAD_ADDRESS = 1, /* lea r64, [rip + distance] */
	CALL = 2,
	JUMP = 4,
	BRANCH = 8,
	NUMBER = 16, /* mov r32, address */
	SLOT = 32,   /* call or jmp qword ptr [rip + distance] */
};

struct range {
	uint64_t low;
	uint64_t high;
};

struct found {
	uint64_t target;
	uint32_t at; /* the offset of the instruction */
	uint32_t form;
};

typedef uint32_t lanes __attribute__((vector_size(STEP_BYTES)));

/* A number at offset `at` leads into the range if number + at * slope - bias < width, modulo 2^32.
 * That is exact unless code and range are 4 GB apart. */
struct test {
	uint32_t bias;
	uint32_t slope;
	uint32_t width;
};

static uint32_t number_at(const uint8_t *code, uint64_t at)
{
	uint32_t number;

	memcpy(&number, code + at, sizeof(number));
	return number;
}

/* Whether a number that begins in the 16 bytes from `at` on passes the test. */
static int may_lead(const uint8_t *code, uint64_t at, struct test test)
{
	const uint32_t slope = test.slope;
	const lanes steps = {0, 4 * slope, 8 * slope, 12 * slope};
	lanes inside = {0};

	for (uint32_t shift = 0; shift < DISTANCE_BYTES; shift++) {
		lanes numbers;

		memcpy(&numbers, code + at + shift, sizeof(numbers));
		numbers += steps + (((uint32_t)at + shift) * slope - test.bias);
		inside |= (lanes)(numbers < test.width);
	}
	return (inside[0] | inside[1] | inside[2] | inside[3]) != 0;
}

/* Return the form of an instruction whose distance or address is at `at`, 0 if it has none of `forms`.
 * `*start` is where the instruction begins. */
static uint32_t form_before(const uint8_t *code, uint64_t at, uint32_t forms, uint64_t *start)
{
	const uint8_t last = at >= 1 ? code[at - 1] : 0;
	const uint8_t second = at >= 2 ? code[at - 2] : 0;
	const uint8_t third = at >= 3 ? code[at - 3] : 0;
	uint32_t form = 0;

	*start = at - 1;
	if (last == 0xe8)
		form = CALL;
	else if (last == 0xe9)
		form = JUMP;
	else if (last >= 0xb8 && last <= 0xbf)
		form = NUMBER;
	if (form & forms)
		return form;
	*start = at - 2;
	if (second == 0x0f && (last & 0xf0) == 0x80)
		return BRANCH & forms;
	if (second == 0xff && (last == 0x15 || last == 0x25))
		return SLOT & forms;
	*start = at - 3;
	if ((third == 0x48 || third == 0x4c) && second == 0x8d && (last & 0xc7) == 0x05)
		return LOAD_ADDRESS & forms;
	return 0;
}

static int is_within(uint64_t target, const struct range *ranges, uint64_t count)
{
	for (uint64_t low = 0, high = count; low < high;) {
		const uint64_t middle = low + (high - low) / 2;

		if (target < ranges[middle].low)
			high = middle;
		else if (target >= ranges[middle].high)
			low = middle + 1;
		else
			return 1;
	}
	return 0;
}

/* Write the instructions in `code` of one of `forms` that refer to an address in one of `ranges` to
 * `found`, `most` at most, and return how many there are.
 *
 * `address`: that of the code. `ranges`: by address, at least one; they do not overlap. `forms`: NUMBER
 * alone, or others. */
uint64_t find_references(const uint8_t *code, uint64_t size, uint64_t address, const struct range *ranges,
			 uint64_t range_count, uint32_t forms, struct found *found, uint64_t most)
{
	const uint32_t is_relative = !(forms & NUMBER);
	const uint64_t low = ranges[0].low;
	const struct test test = {
	    .bias = (uint32_t)(is_relative ? low - address - DISTANCE_BYTES : low),
	    .slope = is_relative,
	    .width = (uint32_t)(ranges[range_count - 1].high - low),
	};
	uint64_t count = 0;
	uint64_t at = 0;

	while (at + DISTANCE_BYTES <= size) {
		uint64_t end = at + STEP_BYTES;

		if (end + DISTANCE_BYTES > size)
			end = size - DISTANCE_BYTES + 1;
		else if (!may_lead(code, at, test)) {
			at = end;
			continue;
		}
		for (; at < end; at++) {
			const uint32_t number = number_at(code, at);
			uint64_t target = number;
			uint64_t start;

			if (number + (uint32_t)at * test.slope - test.bias >= test.width)
				continue;
			const uint32_t form = form_before(code, at, forms, &start);

			if (!form)
				continue;
			if (is_relative)
				target = address + at + DISTANCE_BYTES + (uint64_t)(int64_t)(int32_t)number;
			if (!is_within(target, ranges, range_count))
				continue;
			if (count < most)
				found[count] = (struct found){target, (uint32_t)start, form};
			count++;
		}
	}
	return count;
}
