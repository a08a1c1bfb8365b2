// tests/host/scan.cpp: the scans that the examples read and write. Writes to build/tmp.
#include "../support/test.h"

#include "../../examples/scan_file.h"

#include <math.h>
#include <sys/stat.h>

using namespace spira;
using namespace scan;

// The path of a file in build/tmp; `name` is a literal.
#define SCAN_TEMPORARY(name) (mkdir("build", 0777), mkdir("build/tmp", 0777), "build/tmp/" name)

static const float quiet_nan = NAN, infinite = INFINITY;

// Reading fails with this status and leaves the cloud empty. A negative `detail` is not compared.
static bool refused(const char *path, status_code code, const char *subject, int64_t detail) {
    scan_cloud cloud;
    memset(&cloud, 0xff, sizeof cloud);
    status s = scan_read(path, &cloud);
    bool good = CHECK_STATUS(s, code) && CHECK_EQUAL(s.subject, subject);
    good = (detail < 0 || CHECK_EQUAL(s.detail, detail)) && good;
    return CHECK(!cloud.rows && !cloud.columns && !cloud.points && !cloud.voxels) && good;
}

static float *floats(int64_t count) {
    float *values = guarded_new<float>(count);
    for (int64_t i = 0; i < count; ++i) {
        values[i] = (float)(i * 7 % 1000) / 8 - 60;
    }
    return values;
}

// Writes an .npy file: magic, version, a header padded as NumPy does, data.
static status write_npy(const char *path, int version, const char *header, const void *data,
                        int64_t bytes) {
    char file[8192] = "\x93NUMPY";
    int start = version == 1 ? 10 : 12, length = (int)strlen(header) + 1;
    length += (64 - (start + length) % 64) % 64;
    file[6] = (char)version;
    for (int i = 8; i < start; ++i) {
        file[i] = (char)(length >> 8 * (i - 8));
    }
    memset(file + start, ' ', (size_t)length);
    memcpy(file + start, header, strlen(header));
    file[start + length - 1] = '\n';
    if (bytes) {
        memcpy(file + start + length, data, (size_t)bytes);
    }
    return scan_write_bytes(path, file, start + length + bytes);
}

// ---- raw formats --------------------------------------------------------------------------------

static void round_trip_floats(const char *path, int columns) {
    for (int64_t rows : {1, 2, 511, 512, 513, 2048, 5000}) { // the reader's chunk is 2048 elements
        float *points = floats(rows * columns);
        REQUIRE_OK(scan_write_floats(path, points, rows, columns));
        scan_cloud cloud;
        REQUIRE_OK(scan_read(path, &cloud));
        CHECK_EQUAL(cloud.rows, rows);
        CHECK_EQUAL(cloud.columns, columns);
        CHECK(!cloud.voxels);
        CHECK(memcmp(cloud.points, points, (size_t)(rows * columns) * 4) == 0);
        scan_free(&cloud);
    }
}

TEST(scan_round_trips_kitti) {
    round_trip_floats(SCAN_TEMPORARY("scan.bin"), 4);
}

TEST(scan_round_trips_nuscenes) {
    round_trip_floats(SCAN_TEMPORARY("scan.pcd.bin"), 5);
}

TEST(scan_round_trips_points) {
    round_trip_floats(SCAN_TEMPORARY("scan.xyz32"), 3);
}

TEST(scan_round_trips_voxels) {
    const char *path = SCAN_TEMPORARY("scan.vox32");
    for (int64_t rows : {1, 682, 683, 5000}) {
        int32_t *voxels = guarded_new<int32_t>(rows * 3);
        for (int64_t i = 0; i < rows * 3; ++i) {
            voxels[i] = (int32_t)((uint32_t)i * 2654435761u);
        }
        voxels[0] = INT32_MIN;
        voxels[1] = INT32_MAX;
        voxels[2] = 0x7f800000; // an infinity, were it a float
        REQUIRE_OK(scan_write_voxels(path, voxels, rows));
        scan_cloud cloud;
        REQUIRE_OK(scan_read(path, &cloud));
        CHECK_EQUAL(cloud.rows, rows);
        CHECK_EQUAL(cloud.columns, 3);
        CHECK(!cloud.points);
        CHECK(memcmp(cloud.voxels, voxels, (size_t)rows * 12) == 0);
        scan_free(&cloud);
    }
}

TEST(scan_reads_the_real_scans) {
    struct {
        const char *name;
        int64_t rows;
        int columns;
    } cases[] = {
        {"kitti00_000000.bin", 124668, 4},      {"kitti00_000000_5cm.vox32", 91766, 3},
        {"lone_star_5cm.vox32", 345087, 3},     {"pcl_room_scan1.xyz32", 56159, 3},
        {"pcl_room_scan1_2cm.vox32", 41484, 3}, {"nuscenes_n015.pcd.bin", 34688, 5},
    };
    for (auto &c : cases) {
        NEED_SCANS(c.name);
        char path[4200];
        snprintf(path, sizeof path, "%s/%s", test_data_folder(), c.name);
        scan_cloud cloud;
        REQUIRE_OK(scan_read(path, &cloud));
        CHECK_EQUAL(cloud.rows, c.rows);
        CHECK_EQUAL(cloud.columns, c.columns);
        if (cloud.voxels) {
            int32_t lo[3], hi[3];
            CHECK_OK(scan_bounds_voxels(&cloud, lo, hi));
            CHECK(lo[0] == 0 && lo[1] == 0 && lo[2] == 0); // as data/README.md says
        }
        if (strstr(c.name, "5cm") && strstr(c.name, "kitti")) {
            int32_t lo[3], hi[3];
            CHECK_OK(scan_bounds_voxels(&cloud, lo, hi));
            CHECK(hi[0] == 3121 && hi[1] == 2012 && hi[2] == 116);
        }
        scan_free(&cloud);
    }
}

TEST(scan_free_twice) {
    float *points = floats(8);
    const char *path = SCAN_TEMPORARY("twice.bin");
    REQUIRE_OK(scan_write_floats(path, points, 2, 4));
    scan_cloud cloud;
    REQUIRE_OK(scan_read(path, &cloud));
    scan_free(&cloud);
    CHECK(!cloud.rows && !cloud.points);
    scan_free(&cloud);
    scan_free(nullptr);
}

// ---- refusals -----------------------------------------------------------------------------------

TEST(scan_refuses_bad_paths) {
    scan_cloud cloud;
    CHECK_STATUS(scan_read(nullptr, &cloud), status_null_pointer);
    CHECK(!cloud.points && !cloud.rows);
    CHECK_STATUS(scan_read("a.bin", nullptr), status_null_pointer);
    const char *suffixes = "a path that ends in none of .bin, .pcd.bin, .xyz32, .vox32, .npy";
    for (const char *path : {"", "bin", "scan", "scan.pcd", "scan.bin.gz", "npy", "a.npy/"}) {
        refused(path, status_unsupported, suffixes, -1);
    }
    refused("build/tmp/none/scan.bin", status_file_open, "build/tmp/none/scan.bin", ENOENT);
    const char *directory = SCAN_TEMPORARY("directory.bin");
    mkdir(directory, 0777);
    refused(directory, status_file_open, directory, EISDIR);
}

TEST(scan_refuses_empty_files) {
    const char *paths[] = {SCAN_TEMPORARY("empty.bin"), SCAN_TEMPORARY("empty.pcd.bin"),
                           SCAN_TEMPORARY("empty.xyz32"), SCAN_TEMPORARY("empty.vox32"),
                           SCAN_TEMPORARY("empty.npy")};
    for (const char *path : paths) {
        REQUIRE_OK(scan_write_bytes(path, nullptr, 0));
        refused(path, status_file_empty, path, 0);
    }
}

TEST(scan_refuses_truncated_records) {
    struct {
        const char *path;
        int64_t record;
    } cases[] = {{SCAN_TEMPORARY("cut.bin"), 16},
                 {SCAN_TEMPORARY("cut.pcd.bin"), 20},
                 {SCAN_TEMPORARY("cut.xyz32"), 12},
                 {SCAN_TEMPORARY("cut.vox32"), 12}};
    float *values = floats(100);
    for (auto &c : cases) {
        for (int64_t bytes : {(int64_t)1, c.record - 1, c.record + 1, 3 * c.record - 4}) {
            REQUIRE_OK(scan_write_bytes(c.path, values, bytes));
            refused(c.path, status_file_format, "the last record of the scan is cut short",
                    bytes / c.record);
        }
    }
}

TEST(scan_refuses_what_is_not_finite) {
    const char *path = SCAN_TEMPORARY("nan.bin");
    for (float bad : {quiet_nan, -quiet_nan, infinite, -infinite}) {
        for (int64_t at : {0, 1, 2, 3, 2047, 2048, 2799}) { // among them intensities
            float *points = floats(2800);
            points[at] = points[2799] = bad;
            REQUIRE_OK(scan_write_floats(path, points, 700, 4));
            refused(path, status_not_finite, "points", at / 4);
        }
    }
    float *extremes = floats(4); // these are finite
    extremes[0] = 3.4028235e38f;
    extremes[1] = -1e-45f;
    REQUIRE_OK(scan_write_floats(path, extremes, 1, 4));
    scan_cloud cloud;
    CHECK_OK(scan_read(path, &cloud));
    scan_free(&cloud);
}

TEST(scan_refuses_bad_writes) {
    float value = 1;
    int32_t voxel[3] = {1, 2, 3};
    const char *path = SCAN_TEMPORARY("write.bin");
    CHECK_STATUS(scan_write_floats("build/tmp/none/x.bin", &value, 1, 1), status_file_open);
    CHECK_STATUS(scan_write_floats(nullptr, &value, 1, 1), status_null_pointer);
    CHECK_STATUS(scan_write_floats(path, nullptr, 1, 1), status_null_pointer);
    CHECK_STATUS(scan_write_floats(path, &value, -1, 1), status_bad_size);
    CHECK_STATUS(scan_write_floats(path, &value, (int64_t)1 << 31, 1), status_bad_size);
    CHECK_STATUS(scan_write_floats(path, &value, 1, 0), status_bad_size);
    CHECK_STATUS(scan_write_voxels(path, voxel, -1), status_bad_size);
    CHECK_STATUS(scan_write_bytes(path, &value, -1), status_bad_size);
}

// ---- npy ----------------------------------------------------------------------------------------

TEST(scan_reads_npy_points) {
    const char *path = SCAN_TEMPORARY("points.npy");
    const char *single = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 5), }";
    const char *twice = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 5), }";
    float *values = floats(20);
    double wide[20];
    for (int i = 0; i < 20; ++i) {
        wide[i] = (double)values[i];
    }
    for (int version : {1, 2, 3}) {
        for (int is_double : {0, 1}) {
            REQUIRE_OK(is_double ? write_npy(path, version, twice, wide, sizeof wide)
                                 : write_npy(path, version, single, values, 80));
            scan_cloud cloud;
            REQUIRE_OK(scan_read(path, &cloud));
            CHECK(cloud.rows == 4 && cloud.columns == 5 && !cloud.voxels);
            CHECK(memcmp(cloud.points, values, 80) == 0);
            scan_free(&cloud);
        }
    }
    wide[7] = 1e300; // finite, but not as a float
    REQUIRE_OK(write_npy(path, 1, twice, wide, sizeof wide));
    refused(path, status_not_finite, "points", 1);
}

TEST(scan_reads_npy_voxels) {
    const char *path = SCAN_TEMPORARY("voxels.npy");
    int32_t narrow[8] = {-5, 0, 7, 99, INT32_MIN, INT32_MAX, 1, 99};
    int64_t wide[8];
    for (int i = 0; i < 8; ++i) {
        wide[i] = narrow[i];
    }
    const char *int32 = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 4), }";
    const char *int64 = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 4), }";
    for (int is_wide : {0, 1}) {
        REQUIRE_OK(is_wide ? write_npy(path, 1, int64, wide, sizeof wide)
                           : write_npy(path, 1, int32, narrow, sizeof narrow));
        scan_cloud cloud;
        REQUIRE_OK(scan_read(path, &cloud));
        CHECK(cloud.rows == 2 && cloud.columns == 3 && !cloud.points);
        CHECK(memcmp(cloud.voxels, narrow, 12) == 0);
        CHECK(memcmp(cloud.voxels + 3, narrow + 4, 12) == 0);
        scan_free(&cloud);
    }
    wide[3] = INT64_MAX; // a column that is not read
    REQUIRE_OK(write_npy(path, 1, int64, wide, sizeof wide));
    scan_cloud cloud;
    CHECK_OK(scan_read(path, &cloud));
    scan_free(&cloud);
    for (int64_t bad : {(int64_t)INT32_MAX + 1, (int64_t)INT32_MIN - 1, INT64_MIN}) {
        wide[6] = bad;
        REQUIRE_OK(write_npy(path, 1, int64, wide, sizeof wide));
        refused(path, status_file_format, "npy: a voxel does not fit 32 bits; first row", 1);
    }
}

TEST(scan_reads_npy_headers_as_python_does) {
    const char *path = SCAN_TEMPORARY("python.npy");
    float *values = floats(9);
    const char *headers[] = {
        "{'shape': (3, 3), 'fortran_order': False, 'descr': '<f4'}",
        "{\"descr\" : \"<f4\", \"fortran_order\":False, \"shape\":( 3 ,3 , )}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 3L), }",
    };
    for (const char *header : headers) {
        REQUIRE_OK(write_npy(path, 1, header, values, 36));
        scan_cloud cloud;
        REQUIRE_OK(scan_read(path, &cloud));
        CHECK(cloud.rows == 3 && cloud.columns == 3);
        CHECK(memcmp(cloud.points, values, 36) == 0);
        scan_free(&cloud);
    }
}

TEST(scan_refuses_malformed_npy) {
    const char *path = SCAN_TEMPORARY("malformed.npy");
    const char *good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    float *values = floats(6);
    char file[152]; // a header of 128 bytes and the data
    REQUIRE_OK(write_npy(path, 1, good, values, 24));
    FILE *stream = fopen(path, "rb");
    REQUIRE(stream && fread(file, 1, sizeof file, stream) == sizeof file);
    fclose(stream);

    for (int64_t bytes = 1; bytes < 152; ++bytes) { // cut at each byte
        REQUIRE_OK(scan_write_bytes(path, file, bytes));
        refused(path, status_file_format,
                bytes < 128 ? "npy: the header is cut short" : "npy: the data are cut short", -1);
    }
    struct {
        int at;
        char byte;
        const char *subject;
    } cases[] = {{1, 'M', "npy: the file does not start with \\x93NUMPY"},
                 {6, 0, "npy: the version is not 1.0, 2.0 or 3.0"},
                 {6, 4, "npy: the version is not 1.0, 2.0 or 3.0"},
                 {7, 1, "npy: the version is not 1.0, 2.0 or 3.0"},
                 {9, 17, "npy: the header is longer than 4096 bytes"},
                 {10, ' ', "npy: the header is not a dictionary"}};
    for (auto &c : cases) {
        char kept = file[c.at];
        file[c.at] = c.byte;
        REQUIRE_OK(scan_write_bytes(path, file, sizeof file));
        refused(path, status_file_format, c.subject, -1);
        file[c.at] = kept;
    }
}

TEST(scan_refuses_npy_that_it_does_not_read) {
    const char *path = SCAN_TEMPORARY("refused.npy");
    const char *type = "npy: the type is not <f4, <f8, <i4 or <i8";
    const char *shape = "npy: the shape is not (rows, 3 or more)";
    const char *keys = "npy: the header lacks descr, fortran_order or shape";
    const char *fortran = "npy: Fortran order is not read";
    struct {
        const char *header, *subject;
    } cases[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", type},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }", type},
        {"{'descr': '<u4', 'fortran_order': False, 'shape': (2, 3), }", type},
        {"{'descr': '<f44', 'fortran_order': False, 'shape': (2, 3), }", type},
        {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2, 3), }", type},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", fortran},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3), }",
         "npy: fortran_order is neither True nor False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", shape},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", shape},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", shape},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }", shape},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", shape},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 6, }", shape},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 99999999999999999999), }", shape},
        {"{'fortran_order': False, 'shape': (2, 3), }", keys},
        {"{'descr': '<f4', 'shape': (2, 3), }", keys},
        {"{'descr': '<f4', 'fortran_order': False, }", keys},
        {"{'descr', 'fortran_order': False, 'shape': (2, 3), }", keys},
    };
    float *values = floats(6);
    for (auto &c : cases) {
        REQUIRE_OK(write_npy(path, 1, c.header, values, 24));
        refused(path, status_file_format, c.subject, -1);
    }
    REQUIRE_OK(write_npy(path, 1, cases[0].header, values, 24));
    refused(path, status_file_format, type, 20); // the byte of the type
    REQUIRE_OK(write_npy(path, 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }",
                         values, 24));
    refused(path, status_file_format, "npy: the data are cut short", 152);
}

TEST(scan_refuses_npy_with_no_or_too_many_rows) {
    const char *path = SCAN_TEMPORARY("rows.npy");
    struct {
        const char *header;
        status_code code;
        const char *subject;
        int64_t detail;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", status_file_empty, path, 0},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648, 3), }", status_bad_size,
         "rows", 2147483648},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 3), }",
         status_bad_size, "rows", (int64_t)1 << 40},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2147483647, 65536), }",
         status_file_format, "npy: the data are cut short", -1},
    };
    for (auto &c : cases) {
        REQUIRE_OK(write_npy(path, 1, c.header, nullptr, 0));
        refused(path, c.code, c.subject, c.detail);
    }
}

// ---- bounds -------------------------------------------------------------------------------------

TEST(scan_bounds) {
    float points[8] = {1, -2, 3, 100, -4, 5, 0.5f, -100}; // the last of each row is an intensity
    int32_t voxels[6] = {INT32_MAX, -2, 3, INT32_MIN, 5, 3};
    scan_cloud of_points = {2, 4, points, nullptr}, of_voxels = {2, 3, nullptr, voxels};
    float lo[3], hi[3];
    int32_t low[3], high[3];
    CHECK_OK(scan_bounds_points(&of_points, lo, hi));
    CHECK(lo[0] == -4 && lo[1] == -2 && lo[2] == 0.5f && hi[0] == 1 && hi[1] == 5 && hi[2] == 3);
    CHECK_OK(scan_bounds_voxels(&of_voxels, low, high));
    CHECK(low[0] == INT32_MIN && low[1] == -2 && low[2] == 3);
    CHECK(high[0] == INT32_MAX && high[1] == 5 && high[2] == 3);

    float odd[12] = {NAN, 1, 2, 5, INFINITY, -7, 4, 3, -INFINITY, -6, 9, NAN};
    const scan_cloud some = {4, 3, odd, nullptr};
    CHECK_OK(scan_bounds_points(&some, lo, hi));
    CHECK(lo[0] == -6 && lo[1] == 1 && lo[2] == -7 && hi[0] == 5 && hi[1] == 9 && hi[2] == 2);
    odd[2] = odd[5] = NAN;
    CHECK_STATUS(scan_bounds_points(&some, lo, hi), status_not_finite);

    CHECK_STATUS(scan_bounds_points(&of_voxels, lo, hi), status_null_pointer);
    CHECK_STATUS(scan_bounds_voxels(&of_points, low, high), status_null_pointer);
    CHECK_STATUS(scan_bounds_points(nullptr, lo, hi), status_null_pointer);
    CHECK_STATUS(scan_bounds_points(&of_points, lo, nullptr), status_null_pointer);
    CHECK_STATUS(scan_bounds_voxels(&of_voxels, nullptr, high), status_null_pointer);
    of_points.rows = of_voxels.rows = 0;
    CHECK_STATUS(scan_bounds_points(&of_points, lo, hi), status_bad_size);
    CHECK_STATUS(scan_bounds_voxels(&of_voxels, low, high), status_bad_size);
}
