// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/blob.h: the weights of a network in one piece of memory, with an index by layer name, as
// they are stored in files. Nothing here reads or writes files: the caller reads or maps one and
// passes its bytes.
//
// The format. It is little-endian; the machine must be, too. Version 2 has ranges (kinds 4 to 6);
// blobs without any are of version 1.
//
//   header, 32 bytes                           index, `entries` records of 112 bytes
//   at  size                                   at  size
//    0  8  magic: "spirablb"                    0  64 name: ends with a zero, zeros behind it
//    8  4  version: 1 or 2                     64  4  kind: 0 weight, 1 bias, 2 scale, 3 shift,
//   12  4  checksum of the bytes from 16 to            4 range, 5 weight range, 6 input range
//          the end of the index                68  4  type: 0 fp32, 2 fp16, 3 bf16 (`numeric`);
//                                                     of ranges 0
//                                              72  20 shape: five numbers, see below
//   16  8  bytes of the blob, header included  92  4  checksum of the entry's data
//   24  4  entries                             96  8  offset of the data from the blob's start
//   28  4  bytes of a record: 112             104  8  bytes of the data
//
// A weight has the shape [size.x, size.y, size.z, cin, cout]; its data are [volume, cin, cout],
// with offsets in the order of offset.h. A bias, scale or shift has the shape [1, 1, 1, 1, cout].
//
// Ranges are largest magnitudes, for int8 (net_blob_ranges): a range [1, 1, 1, 1, 1] is of what the
// layer writes; an input range, likewise, of the network's input, in an entry of the first layer
// that reads it; a weight range [1, 1, 1, 1, cout] of the weights of each output channel, 0 where
// it is to be computed. A layer with a weight range computes in int8.
//
// The data follow the index, in the order of the index. Each entry starts at a multiple of 256
// bytes; readers skip the gaps, writers fill them with zeros. The blob ends with the last entry's
// data, or with the header if there are no entries. No two entries have the same name and kind.
// Checksums are CRC-32 as in zlib, Ethernet and PNG.
#ifndef SPIRA_BLOB_H
#define SPIRA_BLOB_H

#include "base/integer.h"
#include "numeric.h"
#include "status.h"

#include <string.h>

namespace spira {

enum {
    blob_version = 1,
    blob_version_ranges = 2,
    blob_memory_alignment = 8,
    blob_alignment = 256,    // of each entry's data, from the start of the blob
    blob_name_bytes = 64,    // with the terminating zero
    blob_entries_max = 4096, // blob_open compares all pairs of names
};

// The most bytes of an entry that a writer accepts: the sum over all entries fits 64 bits.
constexpr uint64_t blob_entry_most = (uint64_t)1 << 48;

enum blob_kind : uint32_t {
    blob_weight,
    blob_bias,
    blob_scale,
    blob_shift,
    blob_range,
    blob_weight_range,
    blob_input_range,
    blob_kinds, // their number
};

struct blob_header {
    char magic[8];
    uint32_t version;
    uint32_t checksum;
    uint64_t bytes;
    uint32_t entries;
    uint32_t entry_bytes;
};

struct blob_entry {
    char name[blob_name_bytes];
    uint32_t kind;     // blob_kind
    uint32_t type;     // numeric; never tf32
    uint32_t shape[5]; // see above
    uint32_t checksum;
    uint64_t offset, bytes;
};

static_assert(sizeof(blob_header) == 32 && sizeof(blob_entry) == 112, "the format has no padding");
static_assert(numeric_f32 == 0 && numeric_f16 == 2 && numeric_bf16 == 3, "numbers of the format");

// A view of the caller's memory that blob_open has checked.
struct blob {
    const char *base;
    size_t bytes;
    int entries;
};

SPIRA_API const char *blob_magic() {
    return "spirablb";
}

// Returns the CRC-32: reflected polynomial 0xedb88320, all ones before and inverted after.
SPIRA_API uint32_t blob_checksum(const void *data, size_t bytes) {
    uint32_t table[256], sum = 0xffffffffu;
    for (uint32_t i = 0; i < 256; ++i) {
        table[i] = i;
        for (int bit = 0; bit < 8; ++bit) {
            table[i] = table[i] & 1 ? table[i] >> 1 ^ 0xedb88320u : table[i] >> 1;
        }
    }
    for (size_t i = 0; i < bytes; ++i) {
        sum = sum >> 8 ^ table[(sum ^ ((const unsigned char *)data)[i]) & 0xff];
    }
    return ~sum;
}

// Returns the offset of the end of the index.
SPIRA_API size_t blob_index_end(int entries) {
    return sizeof(blob_header) + (size_t)entries * sizeof(blob_entry);
}

// Computes the header's checksum.
SPIRA_API uint32_t blob_index_checksum(const char *base, int entries) {
    size_t from = offsetof(blob_header, bytes);
    return blob_checksum(base + from, blob_index_end(entries) - from);
}

// Returns entry i, 0 <= i < b->entries: a copy, since the index in memory is raw bytes.
SPIRA_API blob_entry blob_entry_of(const blob *b, int i) {
    blob_entry e;
    memcpy(&e, b->base + blob_index_end(i), sizeof e);
    return e;
}

// ---- reading ------------------------------------------------------------------------------------

// Reads and checks the header.
SPIRA_API status blob_check_header(const void *memory, size_t bytes, blob_header *h) {
    SPIRA_REQUIRE(bytes >= sizeof *h, status_file_format, "blob: the header is cut short; bytes",
                  bytes);
    memcpy(h, memory, sizeof *h);
    SPIRA_REQUIRE(!memcmp(h->magic, blob_magic(), sizeof h->magic), status_file_format,
                  "blob: it does not start with \"spirablb\"", 0);
    SPIRA_REQUIRE(h->version == blob_version || h->version == blob_version_ranges,
                  status_file_format, "blob: an unsupported version", h->version);
    SPIRA_REQUIRE(h->entry_bytes == sizeof(blob_entry), status_file_format,
                  "blob: the index records are not 112 bytes long", h->entry_bytes);
    SPIRA_REQUIRE(h->entries <= blob_entries_max, status_file_format,
                  "blob: more than 4096 entries", h->entries);
    SPIRA_REQUIRE(bytes >= blob_index_end((int)h->entries), status_file_format,
                  "blob: the index is cut short; bytes", bytes);
    SPIRA_REQUIRE(h->bytes <= bytes, status_file_format, "blob: the data are cut short; bytes",
                  bytes);
    SPIRA_REQUIRE(h->bytes == bytes, status_file_format, "blob: longer than its header says; bytes",
                  bytes);
    SPIRA_REQUIRE(blob_index_checksum((const char *)memory, (int)h->entries) == h->checksum,
                  status_file_format, "blob: the index is damaged (its checksum differs)", 12);
    return status_success();
}

// Returns the number of elements of a shape, or -1 if it is 0 or above `most`.
SPIRA_API int64_t blob_elements(const uint32_t *shape, uint64_t most) {
    uint64_t elements = 1;
    for (int d = 0; d < 5; ++d) {
        if (shape[d] == 0 || elements > most / shape[d]) {
            return -1;
        }
        elements *= shape[d];
    }
    return (int64_t)elements;
}

// Checks that kind, type and shape are known and agree. at: the detail of the error
SPIRA_API status blob_check_shape(const blob_entry *e, uint64_t most_bytes, int64_t at) {
    SPIRA_REQUIRE(e->kind < blob_kinds, status_file_format, "blob entry: an unknown kind", at);
    SPIRA_REQUIRE(e->type <= numeric_bf16 && e->type != numeric_tf32, status_file_format,
                  "blob entry: an unknown type", at);
    uint64_t most = most_bytes / (uint64_t)numeric_size((numeric)e->type);
    SPIRA_REQUIRE(blob_elements(e->shape, most) > 0, status_file_format,
                  "blob entry: a shape without elements, or larger than the blob", at);
    for (int d = 0; d < 4; ++d) {
        SPIRA_REQUIRE(e->kind == blob_weight || e->shape[d] == 1, status_file_format,
                      "blob entry: a bias, scale, shift or range that is not a vector", at);
    }
    SPIRA_REQUIRE(e->kind < blob_range || e->type == numeric_f32, status_file_format,
                  "blob entry: a range that is not fp32", at);
    SPIRA_REQUIRE((e->kind != blob_range && e->kind != blob_input_range) || e->shape[4] == 1,
                  status_file_format, "blob entry: a range of more than one number", at);
    return status_success();
}

// Checks that the name is terminated and followed by zeros.
SPIRA_API status blob_check_name(const blob_entry *e, int i) {
    const char *end = (const char *)memchr(e->name, 0, blob_name_bytes);
    SPIRA_REQUIRE(end, status_file_format, "blob entry: a name without an end", i);
    SPIRA_REQUIRE(end > e->name, status_file_format, "blob entry: no name", i);
    for (; end < e->name + blob_name_bytes; ++end) {
        SPIRA_REQUIRE(!*end, status_file_format, "blob entry: bytes after the end of a name", i);
    }
    return status_success();
}

// Checks entry i. end: of the data before it; moved to the end of its own
SPIRA_API status blob_check_entry(const blob *b, int i, uint64_t *end) {
    blob_entry e = blob_entry_of(b, i);
    SPIRA_TRY(blob_check_name(&e, i));
    SPIRA_TRY(blob_check_shape(&e, b->bytes, i));
    uint64_t bytes =
        (uint64_t)blob_elements(e.shape, b->bytes) * (uint64_t)numeric_size((numeric)e.type);
    SPIRA_REQUIRE(e.bytes == bytes, status_file_format,
                  "blob entry: a size that does not match the shape", i);
    SPIRA_REQUIRE(e.offset % blob_alignment == 0, status_file_format,
                  "blob entry: data that are not aligned to 256 bytes", i);
    SPIRA_REQUIRE(e.offset >= *end, status_file_format,
                  "blob entry: data that overlap earlier data or the index", i);
    SPIRA_REQUIRE(e.offset <= b->bytes && e.bytes <= b->bytes - e.offset, status_file_format,
                  "blob entry: data beyond the end", i);
    *end = e.offset + e.bytes;
    return status_success();
}

// Returns the index of the entry with this name and kind among the first `entries`, or -1.
SPIRA_API int blob_find_among(const blob *b, int entries, const char *name, uint32_t kind) {
    for (int i = 0; i < entries; ++i) {
        const char *at = b->base + blob_index_end(i);
        uint32_t other;
        memcpy(&other, at + offsetof(blob_entry, kind), sizeof other);
        if (other == kind && !strncmp(at, name, blob_name_bytes)) {
            return i;
        }
    }
    return -1;
}

// Returns the index of the entry with this name and kind, or -1.
SPIRA_API int blob_find(const blob *b, const char *name, blob_kind kind) {
    return blob_find_among(b, b->entries, name, kind);
}

// Opens a blob in memory. Reads the header and the index, not the data. No function here reads
// beyond `bytes`, whatever the memory holds.
//
// inputs   memory [bytes]: exactly one blob, aligned to 8; it must outlive the view
// outputs  b: a view of the memory; unchanged on failure
// errors   status_null_pointer; status_alignment; status_file_format, with the bytes, the version
//          or the entry at fault
SPIRA_API status blob_open(const void *memory, size_t bytes, blob *b) {
    SPIRA_TRY(pointer_check(memory, blob_memory_alignment, "memory"));
    SPIRA_REQUIRE(b, status_null_pointer, "blob", 0);
    blob_header h;
    SPIRA_TRY(blob_check_header(memory, bytes, &h));
    blob seen = {(const char *)memory, bytes, (int)h.entries};
    uint64_t end = blob_index_end(seen.entries);
    for (int i = 0; i < seen.entries; ++i) {
        SPIRA_TRY(blob_check_entry(&seen, i, &end));
        blob_entry e = blob_entry_of(&seen, i);
        SPIRA_REQUIRE(e.kind < blob_range || h.version >= blob_version_ranges, status_file_format,
                      "blob entry: a range in a blob of version 1", i);
        SPIRA_REQUIRE(blob_find_among(&seen, i, e.name, e.kind) < 0, status_file_format,
                      "blob entry: a repeated name and kind", i);
    }
    SPIRA_REQUIRE(end == bytes, status_file_format, "blob: bytes after the last data", end);
    *b = seen;
    return status_success();
}

// Checks the data of entry i, and converts them to fp32.
//
// outputs  values: the elements of the shape; on failure, only those before the fault
// errors   status_file_format: the data are damaged or not finite
SPIRA_API status blob_load(const blob *b, int i, float *values) {
    SPIRA_REQUIRE(b, status_null_pointer, "blob", 0);
    SPIRA_TRY(pointer_check(values, sizeof *values, "values"));
    SPIRA_REQUIRE(i >= 0 && i < b->entries, status_bad_size, "entry", i);
    blob_entry e = blob_entry_of(b, i);
    const char *data = b->base + e.offset;
    SPIRA_REQUIRE(blob_checksum(data, (size_t)e.bytes) == e.checksum, status_file_format,
                  "blob entry: damaged data (their checksum differs)", i);
    int64_t elements = (int64_t)e.bytes / numeric_size((numeric)e.type);
    for (int64_t n = 0; n < elements; ++n) {
        values[n] = numeric_load((numeric)e.type, data, n);
        SPIRA_REQUIRE(float_is_finite(values[n]), status_file_format,
                      "blob entry: a NaN or an infinity", i);
    }
    return status_success();
}

// ---- writing ------------------------------------------------------------------------------------

// Writes a blob entry by entry, or only counts its bytes.
struct blob_writer {
    char *base;       // null while only counting
    size_t bytes;     // of the memory
    uint32_t version; // that the entries need
    int entries;      // of the index
    int added;        // entries so far
    size_t used;      // bytes so far: index, gaps and data
};

// Begins a blob.
//
// inputs   memory [bytes]: aligned to 8; null: only count
//          entries: the number of blob_add calls to come
// outputs  w: after the last blob_add, w->used is the size of the blob
SPIRA_API status blob_write_begin(void *memory, size_t bytes, int entries, blob_writer *w) {
    SPIRA_REQUIRE(w, status_null_pointer, "writer", 0);
    if (memory) {
        SPIRA_TRY(pointer_check(memory, blob_memory_alignment, "memory"));
    }
    SPIRA_TRY(size_check(entries, 0, blob_entries_max, "entries"));
    const size_t used = blob_index_end(entries);
    SPIRA_REQUIRE(!memory || bytes >= used, status_workspace, "memory", used);
    w->base = (char *)memory;
    w->bytes = bytes;
    w->version = blob_version;
    w->entries = entries;
    w->added = 0;
    w->used = used;
    return status_success();
}

// Converts values to the entry's type. Refuses a value that the type cannot hold.
SPIRA_API status blob_store(const blob_entry *e, int64_t elements, const float *values,
                            char *data) {
    numeric type = (numeric)e->type;
    for (int64_t n = 0; n < elements; ++n) {
        numeric_store(type, data, n, values[n]);
        SPIRA_REQUIRE(float_is_finite(numeric_stored(type, values[n])), status_not_finite, "values",
                      n);
    }
    return status_success();
}

// Adds an entry.
//
// inputs   name: shorter than 64 bytes; shape [5]: as above; values: the elements of the shape; may
//          be null while counting
// errors   a name, kind, type or shape that is not allowed; more entries than announced; too little
//          memory; status_not_finite: a value is a NaN or an infinity, or becomes one in the type
SPIRA_API status blob_add(blob_writer *w, const char *name, blob_kind kind, numeric type,
                          const uint32_t *shape, const float *values) {
    SPIRA_REQUIRE(w, status_null_pointer, "writer", 0);
    SPIRA_REQUIRE(name, status_null_pointer, "name", 0);
    SPIRA_REQUIRE(shape, status_null_pointer, "shape", 0);
    if (values || w->base) {
        SPIRA_TRY(pointer_check(values, sizeof *values, "values"));
    }
    size_t length = strlen(name);
    SPIRA_REQUIRE(length > 0 && length < blob_name_bytes, status_bad_size, "name (its length)",
                  length);
    SPIRA_REQUIRE(w->added < w->entries, status_bad_size, "entries", w->added);
    blob_entry e = {};
    memcpy(e.name, name, length);
    e.kind = kind;
    e.type = (uint32_t)type;
    memcpy(e.shape, shape, sizeof e.shape);
    SPIRA_TRY(blob_check_shape(&e, blob_entry_most, w->added));
    int64_t elements = blob_elements(e.shape, blob_entry_most);
    e.offset = (uint64_t)round_up((int64_t)w->used, blob_alignment);
    e.bytes = (uint64_t)elements * (uint64_t)numeric_size(type);
    size_t end = (size_t)(e.offset + e.bytes);
    if (w->base) {
        SPIRA_REQUIRE(end <= w->bytes, status_workspace, "memory", end);
        memset(w->base + w->used, 0, (size_t)e.offset - w->used);
        SPIRA_TRY(blob_store(&e, elements, values, w->base + e.offset));
        e.checksum = blob_checksum(w->base + e.offset, (size_t)e.bytes);
        memcpy(w->base + blob_index_end(w->added), &e, sizeof e);
    }
    w->version = kind < blob_range ? w->version : (uint32_t)blob_version_ranges;
    w->used = end;
    ++w->added;
    return status_success();
}

// Ends a blob: writes the header, and opens the blob as a reader would.
//
// inputs   w: over memory, with all announced entries added
// outputs  b: a view of the blob, of w->used bytes
// errors   status_bad_size "entries" (fewer than announced); those of blob_open
SPIRA_API status blob_write_end(blob_writer *w, blob *b) {
    SPIRA_REQUIRE(w, status_null_pointer, "writer", 0);
    SPIRA_REQUIRE(w->base, status_null_pointer, "memory", 0);
    SPIRA_REQUIRE(w->added == w->entries, status_bad_size, "entries", w->added);
    blob_header h = {};
    memcpy(h.magic, blob_magic(), sizeof h.magic);
    h.version = w->version;
    h.bytes = w->used;
    h.entries = (uint32_t)w->entries;
    h.entry_bytes = sizeof(blob_entry);
    memcpy(w->base, &h, sizeof h);
    h.checksum = blob_index_checksum(w->base, w->entries);
    memcpy(w->base, &h, sizeof h);
    return blob_open(w->base, w->used, b);
}

} // namespace spira

#endif
