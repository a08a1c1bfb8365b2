// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_png.h: writes PNG files, on the host, without a library.
#ifndef SPIRA_EXAMPLES_SCAN_PNG_H
#define SPIRA_EXAMPLES_SCAN_PNG_H

#include "../spira/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace scan {

enum { png_most_side = 10900 }; // a row has up to 32768 bytes

// Big-endian, as PNG requires.
SPIRA_API void png_number(uint8_t *to, uint32_t number) {
    for (int i = 0; i < 4; ++i) {
        to[i] = (uint8_t)(number >> (24 - 8 * i));
    }
}

// ---- deflate ------------------------------------------------------------------------------------

// A deflate stream (RFC 1951) under construction: one block with the fixed Huffman codes.
struct png_bits {
    uint8_t *to;
    size_t bytes;
    uint32_t held; // the `count` bits that are not written yet, the first in the lowest bit
    int count;
};

SPIRA_API void png_put(png_bits *b, uint32_t value, int bits) {
    b->held |= value << b->count;
    for (b->count += bits; b->count >= 8; b->count -= 8) {
        b->to[b->bytes++] = (uint8_t)b->held;
        b->held >>= 8;
    }
}

// Huffman codes begin with their highest bit.
SPIRA_API void png_put_code(png_bits *b, uint32_t code, int bits) {
    for (int i = bits - 1; i >= 0; --i) {
        png_put(b, code >> i & 1, 1);
    }
}

// A literal byte, 256 for the end, or a length from 257 on.
SPIRA_API void png_put_symbol(png_bits *b, uint32_t symbol) {
    if (symbol < 144) {
        png_put_code(b, 0x30 + symbol, 8);
    } else if (symbol < 256) {
        png_put_code(b, 0x190 + symbol - 144, 9);
    } else if (symbol < 280) {
        png_put_code(b, symbol - 256, 7);
    } else {
        png_put_code(b, 0xc0 + symbol - 280, 8);
    }
}

// A copy of 3 to 257 bytes from up to 32768 bytes before. Lengths and distances are in groups: of
// four codes, or two, a group's spans are twice as wide as those of the group before.
SPIRA_API void png_put_copy(png_bits *b, uint32_t length, uint32_t distance) {
    const uint32_t n = length - 3, d = distance - 1;
    int wide = 0;
    for (; n >> wide > 7; ++wide) {
    }
    png_put_symbol(b, 257 + 4 * (uint32_t)wide + (n >> wide));
    png_put(b, n & ((1u << wide) - 1), wide);
    for (wide = 0; d >> wide > 3; ++wide) {
    }
    png_put_code(b, 2 * (uint32_t)wide + (d >> wide), 5);
    png_put(b, d & ((1u << wide) - 1), wide);
}

// Compresses rows of an image, each behind its filter byte: copies come from the pixel before or
// from the row above.
//
// inputs:  raw  [bytes]; row  bytes of a row, up to 32768
// outputs: to   [bytes * 9 / 8 + 16]: a zlib stream
// returns: its bytes
SPIRA_API size_t png_deflate(const uint8_t *raw, size_t bytes, size_t row, uint8_t *to) {
    const size_t distances[2] = {3, row};
    uint32_t adler[2] = {1, 0};
    png_bits b = {to, 2, 3, 3}; // the last block, of fixed codes
    to[0] = 0x78;
    to[1] = 0x01;
    for (size_t i = 0; i < bytes;) {
        size_t length = 0, distance = 0;
        for (size_t d : distances) {
            size_t n = 0;
            while (i >= d && n < 257 && i + n < bytes && raw[i + n] == raw[i + n - d]) {
                ++n;
            }
            if (n > length) {
                length = n;
                distance = d;
            }
        }
        if (length >= 3) {
            png_put_copy(&b, (uint32_t)length, (uint32_t)distance);
        } else {
            length = 1;
            png_put_symbol(&b, raw[i]);
        }
        for (const size_t end = i + length; i < end; ++i) {
            adler[0] = (adler[0] + raw[i]) % 65521;
            adler[1] = (adler[1] + adler[0]) % 65521;
        }
    }
    png_put_symbol(&b, 256);
    png_put(&b, 0, 7); // to a whole byte
    png_number(to + b.bytes, adler[1] << 16 | adler[0]);
    return b.bytes + 4;
}

// ---- PNG ----------------------------------------------------------------------------------------

// Writes a chunk: its length, its type, the data, and the CRC-32 of type and data.
SPIRA_API bool png_chunk(FILE *file, const char *type, const uint8_t *data, size_t bytes) {
    uint8_t head[8], tail[4];
    uint32_t crc = 0xffffffffu;
    png_number(head, (uint32_t)bytes);
    memcpy(head + 4, type, 4);
    for (size_t i = 0; i < bytes + 4; ++i) {
        crc ^= i < 4 ? head[4 + i] : data[i - 4];
        for (int bit = 0; bit < 8; ++bit) {
            crc = crc & 1 ? 0xedb88320u ^ (crc >> 1) : crc >> 1;
        }
    }
    png_number(tail, ~crc);
    return fwrite(head, 1, 8, file) == 8 && fwrite(data, 1, bytes, file) == bytes &&
           fwrite(tail, 1, 4, file) == 4;
}

// Writes an 8-bit RGB image as a PNG. Overwrites an existing file.
//
// inputs:  path; rgb [height, width, 3], top row first
// errors:  status_null_pointer  "path" or "rgb"
//          status_bad_size      "width" or "height": not in 1..10900
//          status_capacity      no memory; detail: bytes
//          status_file_open     the file cannot be created or fully written; detail: errno
SPIRA_API spira::status png_write(const char *path, const uint8_t *rgb, int width, int height) {
    SPIRA_REQUIRE(path, spira::status_null_pointer, "path", 0);
    SPIRA_REQUIRE(rgb, spira::status_null_pointer, "rgb", 0);
    SPIRA_REQUIRE(width > 0 && width <= png_most_side, spira::status_bad_size, "width", width);
    SPIRA_REQUIRE(height > 0 && height <= png_most_side, spira::status_bad_size, "height", height);
    const size_t pixels = (size_t)width * 3, row = pixels + 1, bytes = row * (size_t)height;
    uint8_t header[13] = {0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0}; // 8 bits of red, green and blue
    png_number(header, (uint32_t)width);
    png_number(header + 4, (uint32_t)height);
    uint8_t *raw = (uint8_t *)calloc(bytes, 1), *packed = (uint8_t *)malloc(bytes * 9 / 8 + 16);
    FILE *file = raw && packed ? fopen(path, "wb") : nullptr;
    const int error = errno;
    bool good = file != nullptr;
    if (good) {
        for (int y = 0; y < height; ++y) { // behind a filter byte of 0
            memcpy(raw + row * (size_t)y + 1, rgb + pixels * (size_t)y, pixels);
        }
        good = fwrite("\x89PNG\r\n\x1a\n", 1, 8, file) == 8 &&
               png_chunk(file, "IHDR", header, sizeof header) &&
               png_chunk(file, "IDAT", packed, png_deflate(raw, bytes, row, packed)) &&
               png_chunk(file, "IEND", packed, 0);
        good = fclose(file) == 0 && good;
    }
    const bool memory = raw && packed;
    free(raw);
    free(packed);
    SPIRA_REQUIRE(memory, spira::status_workspace, "bytes of memory for the picture",
                  (int64_t)bytes * 2);
    SPIRA_REQUIRE(good, spira::status_file_open, path, file ? errno : error);
    return spira::status_success();
}

} // namespace scan

#endif
