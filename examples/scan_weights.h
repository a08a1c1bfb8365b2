// examples/scan_weights.h: the parameters that scan.cu runs a network with: from a file with a blob
// (spira/blob.h), or made up from a seed; and such a file of them.
#ifndef SPIRA_EXAMPLES_SCAN_WEIGHTS_H
#define SPIRA_EXAMPLES_SCAN_WEIGHTS_H

#include "networks.h"
#include "scan_file.h"

namespace weights {

SPIRA_API spira::status stream_read(FILE *file, const char *path, void **memory, size_t *bytes) {
    bool nothing = fgetc(file) == EOF; // a directory opens, and fails here
    SPIRA_REQUIRE(!nothing || !ferror(file), spira::status_file_open, path, errno);
    SPIRA_REQUIRE(!nothing, spira::status_file_empty, path, 0);
    int64_t size = scan::scan_file_bytes(file);
    SPIRA_REQUIRE(size >= 0, spira::status_file_open, path, errno);
    *bytes = (size_t)size;
    *memory = malloc(*bytes);
    SPIRA_REQUIRE(*memory, spira::status_capacity, "bytes of memory", size);
    SPIRA_REQUIRE(fread(*memory, 1, *bytes, file) == *bytes, spira::status_file_open, path, errno);
    return spira::status_success();
}

// Reads a whole file into memory, which the caller frees, after an error too.
SPIRA_API spira::status file_read(const char *path, void **memory, size_t *bytes) {
    *memory = nullptr;
    FILE *file = fopen(path, "rb");
    SPIRA_REQUIRE(file, spira::status_file_open, path, errno);
    spira::status s = stream_read(file, path, memory, bytes);
    fclose(file);
    return s;
}

// Writes a file that is not there yet: one that is, is left as it is, and errno says so.
SPIRA_API spira::status file_write(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wbx");
    SPIRA_REQUIRE(file, spira::status_file_open, path, errno);
    bool written = fwrite(data, 1, bytes, file) == bytes;
    bool closed = fclose(file) == 0;
    SPIRA_REQUIRE(written && closed, spira::status_file_open, path, errno);
    return spira::status_success();
}

// Reads the parameters of a plan from a file.
SPIRA_API spira::status read(const char *path, const spira::net_plan *plan, float *params,
                             int *unused) {
    void *memory;
    size_t bytes;
    spira::blob blob;
    spira::status s = file_read(path, &memory, &bytes);
    s = spira::status_failed(s) ? s : spira::blob_open(memory, bytes, &blob);
    s = spira::status_failed(s) ? s : spira::net_blob_read(plan, &blob, params, unused);
    free(memory);
    return s;
}

// Writes the parameters of a plan, as fp32.
SPIRA_API spira::status write(const char *path, const spira::net_plan *plan, const float *params) {
    size_t bytes;
    spira::blob blob;
    SPIRA_TRY(spira::net_blob_bytes(plan, spira::numeric_f32, &bytes));
    void *memory = malloc(bytes);
    SPIRA_REQUIRE(memory, spira::status_capacity, "bytes of memory", bytes);
    spira::status s = spira::net_blob_write(plan, params, spira::numeric_f32, memory, bytes, &blob);
    if (!spira::status_failed(s)) {
        s = file_write(path, memory, blob.bytes);
    }
    free(memory);
    return s;
}

} // namespace weights

#endif
