// examples/npy_file.h: writes .npy files, the arrays of NumPy.
//
//   FILE *file;
//   SPIRA_TRY(npy::file_begin("a.npy", "<i4", shape, 2, &file));
//   fwrite(values, sizeof(int32_t), count, file); // the rows, in C order
//   SPIRA_TRY(npy::file_end(file, "a.npy"));
#ifndef SPIRA_EXAMPLES_NPY_FILE_H
#define SPIRA_EXAMPLES_NPY_FILE_H

#include "../spira/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

namespace npy {

enum { header_bytes = 256 };

// Begins a file, which must not exist yet. type: as NumPy names it
static inline spira::status file_begin(const char *path, const char *type, const int64_t *shape,
                                       int axes, FILE **file) {
    char header[header_bytes + 1] = "\x93NUMPY\x01";
    header[8] = (char)(header_bytes - 10); // the bytes that follow
    int used = 10;
    used += snprintf(header + used, header_bytes - (size_t)used,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (int a = 0; a < axes; ++a) {
        used += snprintf(header + used, header_bytes - (size_t)used, "%lld, ", (long long)shape[a]);
    }
    used += snprintf(header + used, header_bytes - (size_t)used, "), }");
    memset(header + used, ' ', header_bytes - (size_t)used);
    header[header_bytes - 1] = '\n';
    *file = fopen(path, "wbx");
    SPIRA_REQUIRE(*file, spira::status_file_open, path, errno);
    fwrite(header, 1, header_bytes, *file);
    return spira::status_success();
}

// Ends a file. Errors of earlier writes are found here.
static inline spira::status file_end(FILE *file, const char *path) {
    const bool good = !ferror(file);
    SPIRA_REQUIRE(fclose(file) == 0 && good, spira::status_file_open, path, errno);
    return spira::status_success();
}

} // namespace npy

#endif
