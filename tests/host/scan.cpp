// tests/host/scan.cpp: the examples' scans, scenes and pictures. Writes to build/tmp.
#include "../support/test.h"

#include "../../examples/scan_file.h"
#include "../../examples/scan_picture.h"
#include "../../examples/scan_scene.h"

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

// ---- scenes -------------------------------------------------------------------------------------

static int compare_words(const void *a, const void *b) {
    uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;
    return (p > q) - (p < q);
}

// The number of distinct voxels in [voxels, 3]; each coordinate fits 21 bits.
static int64_t count_distinct(const int32_t *coords, int64_t voxels) {
    uint64_t *words = guarded_new<uint64_t>(voxels);
    for (int64_t i = 0; i < voxels; ++i) {
        words[i] = 0;
        for (int axis = 0; axis < 3; ++axis) {
            words[i] = words[i] << 21 | (uint64_t)(coords[i * 3 + axis] + (1 << 20));
        }
    }
    qsort(words, (size_t)voxels, sizeof *words, compare_words);
    int64_t distinct = voxels > 0;
    for (int64_t i = 1; i < voxels; ++i) {
        distinct += words[i] != words[i - 1];
    }
    return distinct;
}

TEST(scan_scene_street_looks_like_a_scan) {
    for (uint32_t seed : {0u, 1u, 2u, 77u, UINT32_MAX}) {
        scan_cloud cloud;
        REQUIRE_OK(scan_scene_street(seed, &cloud));
        CHECK_EQUAL(cloud.columns, 4);
        CHECK(cloud.rows > 100000 && cloud.rows < 128000);
        int32_t *voxels = guarded_new<int32_t>(cloud.rows * 3);
        bool sane = true;
        for (int64_t i = 0; i < cloud.rows; ++i) {
            const float *p = cloud.points + i * 4;
            float range = sqrtf(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
            sane = sane && range > 1.5f && range < 80.1f && p[2] > -3.5f && p[2] < 4 && p[3] >= 0 &&
                   p[3] <= 1;
            for (int axis = 0; axis < 3; ++axis) {
                voxels[i * 3 + axis] = (int32_t)floorf(p[axis] / 0.05f);
            }
        }
        CHECK(sane);
        int64_t distinct = count_distinct(voxels, cloud.rows);
        CHECK(distinct > 50000 && distinct < 100000);
        scan_free(&cloud);
    }
}

TEST(scan_scene_street_repeats_for_a_seed) {
    scan_cloud a, b, c;
    REQUIRE_OK(scan_scene_street(5, &a));
    REQUIRE_OK(scan_scene_street(5, &b));
    REQUIRE_OK(scan_scene_street(6, &c));
    REQUIRE(a.rows == b.rows);
    CHECK(memcmp(a.points, b.points, (size_t)a.rows * 16) == 0);
    CHECK(a.rows != c.rows || memcmp(a.points, c.points, (size_t)a.rows * 16) != 0);
    const char *path = SCAN_TEMPORARY("street.bin");
    REQUIRE_OK(scan_write_floats(path, a.points, a.rows, a.columns));
    scan_free(&b);
    REQUIRE_OK(scan_read(path, &b)); // all values are finite
    CHECK(a.rows == b.rows && memcmp(a.points, b.points, (size_t)a.rows * 16) == 0);
    scan_free(&a);
    scan_free(&b);
    scan_free(&c);
    CHECK_STATUS(scan_scene_street(0, nullptr), status_null_pointer);
}

TEST(scan_scene_random_is_distinct) {
    struct {
        int extent[3];
        int64_t voxels;
    } cases[] = {
        {{1, 1, 1}, 1},           {{1, 1, 1}, 0},
        {{2, 1, 1}, 2},           {{3, 5, 7}, 105},
        {{3, 5, 7}, 104},         {{16, 16, 16}, 4096},
        {{17, 16, 16}, 17 * 256}, {{100, 90, 20}, 10000},
        {{1, 1, 5000}, 99},       {{4096, 4096, 512}, 20000},
    };
    for (auto &c : cases) {
        for (uint32_t seed : {0u, 1u, UINT32_MAX}) {
            int32_t *coords = guarded_new<int32_t>(c.voxels * 3);
            int32_t *again = guarded_new<int32_t>(c.voxels * 3);
            REQUIRE_OK(scan_scene_random(seed, c.voxels, c.extent, coords));
            REQUIRE_OK(scan_scene_random(seed, c.voxels, c.extent, again));
            CHECK(memcmp(coords, again, (size_t)c.voxels * 12) == 0);
            bool inside = true;
            for (int64_t i = 0; i < c.voxels * 3; ++i) {
                inside = inside && coords[i] >= 0 && coords[i] < c.extent[i % 3];
            }
            CHECK(inside);
            CHECK_EQUAL(count_distinct(coords, c.voxels), c.voxels);
        }
    }
}

TEST(scan_scene_random_is_uniform) {
    const int extent[3] = {1000, 300, 40};
    const int64_t voxels = 40000;
    int32_t *coords = guarded_new<int32_t>(voxels * 3), *other = guarded_new<int32_t>(voxels * 3);
    REQUIRE_OK(scan_scene_random(3, voxels, extent, coords));
    REQUIRE_OK(scan_scene_random(4, voxels, extent, other));
    CHECK(memcmp(coords, other, (size_t)voxels * 12) != 0);
    int64_t counts[8] = {}; // of each octant: 5000, with a standard deviation of 66
    for (int64_t i = 0; i < voxels; ++i) {
        int octant = 0;
        for (int axis = 0; axis < 3; ++axis) {
            octant = octant * 2 + (coords[i * 3 + axis] >= extent[axis] / 2);
        }
        ++counts[octant];
    }
    for (int64_t count : counts) {
        CHECK(count > 5000 - 400 && count < 5000 + 400);
    }
}

TEST(scan_scene_random_refuses) {
    const int extent[3] = {3, 4, 5}, flat[3] = {3, 0, 5}, negative[3] = {-3, -4, 5};
    const int huge[3] = {INT32_MAX, INT32_MAX, INT32_MAX}, wide[3] = {INT32_MAX, INT32_MAX, 1};
    int32_t *coords = guarded_new<int32_t>(60 * 3);
    status s = scan_scene_random(1, 61, extent, coords);
    CHECK_STATUS(s, status_capacity);
    CHECK_EQUAL(s.detail, 61);
    CHECK_STATUS(scan_scene_random(1, -1, extent, coords), status_bad_size);
    CHECK_STATUS(scan_scene_random(1, 1, flat, coords), status_bad_size);
    CHECK_STATUS(scan_scene_random(1, 1, negative, coords), status_bad_size);
    CHECK_STATUS(scan_scene_random(1, 1, huge, coords), status_bad_size);
    CHECK_STATUS(scan_scene_random(1, 1, nullptr, coords), status_null_pointer);
    CHECK_STATUS(scan_scene_random(1, 1, extent, nullptr), status_null_pointer);
    CHECK(guarded_untouched(coords, 0, 60 * 3));
    CHECK_OK(scan_scene_random(1, 0, extent, nullptr));
    CHECK_OK(scan_scene_random(1, 60, wide, coords)); // almost 2^62 cells
    CHECK(coords[0] >= 0 && coords[1] >= 0 && coords[2] == 0);
}

// ---- pictures -----------------------------------------------------------------------------------

static uint32_t big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// Computed bit by bit, unlike the writer's.
static uint32_t crc_of(const uint8_t *data, size_t bytes) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes * 8; ++i) {
        crc ^= (uint32_t)(data[i / 8] >> (i % 8) & 1);
        crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

// Reads a PNG as the examples write it: checks chunks, checksums and blocks, returns the image.
struct decoded {
    int width, height;
    int64_t bytes;  // of the image with its filter bytes
    uint8_t *image; // [height, 1 + 3 * width]
};

// Copies the data of all IDAT chunks to `zlib` and returns their bytes; -1 if malformed.
static int64_t png_chunks(const uint8_t *file, int64_t size, decoded *out, uint8_t *zlib) {
    int64_t at = 8, taken = 0;
    bool ended = false;
    while (!ended) {
        if (at + 12 > size || at + 12 + (int64_t)big_endian(file + at) > size) {
            return -1;
        }
        uint32_t bytes = big_endian(file + at);
        const uint8_t *type = file + at + 4, *data = type + 4;
        if (crc_of(type, bytes + 4) != big_endian(data + bytes)) {
            return -1;
        }
        if (at == 8) {
            const uint8_t kind[5] = {8, 2, 0, 0, 0};
            if (memcmp(type, "IHDR", 4) || bytes != 13 || memcmp(data + 8, kind, 5)) {
                return -1;
            }
            out->width = (int)big_endian(data);
            out->height = (int)big_endian(data + 4);
        } else if (memcmp(type, "IDAT", 4) == 0) {
            memcpy(zlib + taken, data, bytes);
            taken += bytes;
        } else if (memcmp(type, "IEND", 4)) {
            return -1;
        }
        ended = memcmp(type, "IEND", 4) == 0;
        at += 12 + bytes;
    }
    return at == size ? taken : -1;
}

// Copies the contents of stored deflate blocks, and checks the Adler-32 checksum.
static bool png_inflate(const uint8_t *zlib, int64_t size, decoded *out) {
    int64_t at = 2;
    bool last = false;
    out->bytes = 0;
    if (size < 2 || (zlib[0] * 256 + zlib[1]) % 31 || (zlib[0] & 15) != 8 || (zlib[1] & 32)) {
        return false;
    }
    while (!last && at + 5 <= size) {
        int length = zlib[at + 1] | zlib[at + 2] << 8, check = zlib[at + 3] | zlib[at + 4] << 8;
        last = zlib[at] & 1;
        if (zlib[at] > 1 || (length ^ check) != 0xffff || at + 5 + length > size) {
            return false;
        }
        memcpy(out->image + out->bytes, zlib + at + 5, (size_t)length);
        out->bytes += length;
        at += 5 + length;
    }
    uint32_t a = 1, b = 0;
    for (int64_t i = 0; i < out->bytes; ++i) {
        a = (a + out->image[i]) % 65521;
        b = (b + a) % 65521;
    }
    return last && at + 4 == size && big_endian(zlib + at) == (b << 16 | a);
}

// The file at `path` is a valid PNG that shows rgb [height, width, 3].
static bool png_shows(const char *path, const uint8_t *rgb, int width, int height) {
    int64_t size = 0, most = 200 + (int64_t)height * (width * 3 + 100);
    uint8_t *file = guarded_new<uint8_t>(most), *zlib = guarded_new<uint8_t>(most);
    decoded image = {0, 0, 0, guarded_new<uint8_t>(most)};
    FILE *stream = fopen(path, "rb");
    if (!CHECK(stream != nullptr)) {
        return false;
    }
    size = (int64_t)fread(file, 1, (size_t)most, stream);
    fclose(stream);
    bool good = CHECK(size > 8 && size < most && memcmp(file, "\x89PNG\r\n\x1a\n", 8) == 0);
    int64_t packed = good ? png_chunks(file, size, &image, zlib) : -1;
    good = CHECK(packed > 0) && CHECK(image.width == width && image.height == height) &&
           CHECK(png_inflate(zlib, packed, &image)) &&
           CHECK(image.bytes == (int64_t)height * (1 + 3 * width));
    for (int y = 0; good && y < height; ++y) {
        const uint8_t *row = image.image + (int64_t)y * (1 + 3 * width);
        good = CHECK(row[0] == 0 &&
                     memcmp(row + 1, rgb + (int64_t)y * width * 3, (size_t)width * 3) == 0);
    }
    return good;
}

TEST(picture_png_is_valid) {
    const int sizes[][2] = {{1, 1}, {3, 2}, {2, 300}, {257, 19}, {picture_most_side, 2}};
    const char *path = SCAN_TEMPORARY("picture.png");
    for (auto &size : sizes) {
        int64_t bytes = (int64_t)size[0] * size[1] * 3;
        uint8_t *rgb = guarded_new<uint8_t>(bytes);
        for (int64_t i = 0; i < bytes; ++i) {
            rgb[i] = (uint8_t)(i * i / 7 + i);
        }
        REQUIRE_OK(picture_write_png(path, rgb, size[0], size[1]));
        CHECK(png_shows(path, rgb, size[0], size[1]));
        rgb[bytes / 2] ^= 1; // a planted error
        test_state.quiet = 1;
        int failures = test_state.failures;
        bool shown = png_shows(path, rgb, size[0], size[1]);
        test_state.failures = failures;
        test_state.quiet = 0;
        CHECK(!shown);
    }
}

TEST(picture_png_refuses) {
    uint8_t rgb[3] = {1, 2, 3};
    const char *path = SCAN_TEMPORARY("refused.png");
    CHECK_STATUS(picture_write_png(nullptr, rgb, 1, 1), status_null_pointer);
    CHECK_STATUS(picture_write_png(path, nullptr, 1, 1), status_null_pointer);
    CHECK_STATUS(picture_write_png(path, rgb, 0, 1), status_bad_size);
    CHECK_STATUS(picture_write_png(path, rgb, 1, 0), status_bad_size);
    CHECK_STATUS(picture_write_png(path, rgb, picture_most_side + 1, 1), status_bad_size);
    CHECK_STATUS(picture_write_png(path, rgb, 1, picture_most_side + 1), status_bad_size);
    CHECK_STATUS(picture_write_png("build/tmp/none/x.png", rgb, 1, 1), status_file_open);
}

TEST(picture_palette_is_distinct) {
    uint8_t a[3], b[3];
    for (int i = 0; i < picture_colours; ++i) {
        picture_class_colour(i, a);
        for (int j = -1; j < i; ++j) {
            picture_class_colour(j, b);
            CHECK(abs(a[0] - b[0]) + abs(a[1] - b[1]) + abs(a[2] - b[2]) > 20);
        }
        picture_class_colour(i + picture_colours, b);
        CHECK(memcmp(a, b, 3) == 0);
    }
    picture_class_colour(INT32_MIN, a); // no reading before the palette
    picture_class_colour(INT32_MAX, a);
}

TEST(picture_shows_the_highest) {
    // Two columns. The left one's lower voxel comes last; the right one has the larger y.
    const int32_t coords[9] = {0, 0, 9, 1, 1, 9, 0, 0, -5}, classes[3] = {0, 1, 2};
    picture image;
    REQUIRE_OK(picture_from_above(coords, classes, 3, 2, &image));
    CHECK(image.width == 2 && image.height == 2);
    REQUIRE(image.rgb != nullptr);
    uint8_t zero[3], one[3];
    picture_class_colour(0, zero);
    picture_class_colour(1, one);
    CHECK(memcmp(image.rgb + 6, zero, 3) == 0);      // bottom left, at full brightness
    CHECK(memcmp(image.rgb + 3, one, 3) == 0);       // top right
    CHECK(memcmp(image.rgb, image.rgb + 9, 3) == 0); // the background
    CHECK(image.rgb[0] < 40);
    picture_free(&image);
    CHECK(!image.rgb && !image.width);
    picture_free(&image);
    picture_free(nullptr);
}

TEST(picture_does_not_depend_on_the_order) {
    const int extent[3] = {90, 60, 4};
    const int64_t voxels = 3000;
    int32_t *coords = guarded_new<int32_t>(voxels * 3), *turned = guarded_new<int32_t>(voxels * 3);
    int32_t *classes = guarded_new<int32_t>(voxels), *turned_classes = guarded_new<int32_t>(voxels);
    REQUIRE_OK(scan_scene_random(9, voxels, extent, coords));
    for (int64_t i = 0; i < voxels; ++i) {
        classes[i] = (int32_t)(i % 20);
        turned_classes[voxels - 1 - i] = classes[i];
        memcpy(turned + (voxels - 1 - i) * 3, coords + i * 3, 12);
    }
    picture a, b;
    REQUIRE_OK(picture_from_above(coords, classes, voxels, 20, &a));
    REQUIRE_OK(picture_from_above(turned, turned_classes, voxels, 20, &b));
    CHECK(a.width == 18 && a.height == 12); // 5 voxels a pixel
    CHECK(memcmp(a.rgb, b.rgb, (size_t)a.width * (size_t)a.height * 3) == 0);
    picture_free(&a);
    picture_free(&b);
}

TEST(picture_keeps_within_its_side) {
    for (int side : {1, 2, 7, 99, 100, 101, 1000, 0, -1}) {
        for (int length : {1, 2, 50, 100, 101, 4000, INT32_MAX}) {
            int32_t coords[6] = {0, 0, 0, length - 1, (length - 1) / 4, 0};
            picture image;
            REQUIRE_OK(picture_from_above(coords, nullptr, 2, side, &image));
            int most = side > 0 ? side : picture_default_side;
            CHECK(image.width > 0 && image.width <= most && image.height <= image.width);
            CHECK(image.width > most / 2 || image.width == length * picture_most_zoom);
            picture_free(&image);
        }
    }
    int32_t ends[6] = {INT32_MIN, INT32_MIN, INT32_MIN, INT32_MAX, INT32_MAX, INT32_MAX};
    picture image;
    REQUIRE_OK(picture_from_above(ends, nullptr, 2, 10, &image));
    CHECK(image.width <= 10 && image.height <= 10);
    picture_free(&image);
}

TEST(picture_of_nothing_and_refusals) {
    int32_t coords[3] = {0, 0, 0};
    picture image;
    REQUIRE_OK(picture_from_above(nullptr, nullptr, 0, 0, &image));
    CHECK(image.width > 0 && image.height > 0 && image.rgb);
    picture_free(&image);
    CHECK_STATUS(picture_from_above(coords, nullptr, 1, 0, nullptr), status_null_pointer);
    CHECK_STATUS(picture_from_above(nullptr, nullptr, 1, 0, &image), status_null_pointer);
    CHECK(!image.rgb && !image.width);
    CHECK_STATUS(picture_from_above(coords, nullptr, -1, 0, &image), status_bad_size);
    CHECK_STATUS(picture_from_above(coords, nullptr, 1, picture_most_side + 1, &image),
                 status_bad_size);
}

TEST(picture_of_a_street) {
    scan_cloud cloud;
    REQUIRE_OK(scan_scene_street(1, &cloud));
    int32_t *coords = guarded_new<int32_t>(cloud.rows * 3);
    int32_t *classes = guarded_new<int32_t>(cloud.rows);
    for (int64_t i = 0; i < cloud.rows; ++i) {
        for (int axis = 0; axis < 3; ++axis) {
            coords[i * 3 + axis] = (int32_t)floorf(cloud.points[i * 4 + axis] / 0.05f);
        }
        classes[i] = (int32_t)(cloud.points[i * 4 + 3] * 20);
    }
    picture image;
    REQUIRE_OK(picture_from_above(coords, classes, cloud.rows, 600, &image));
    CHECK(image.width > 300 && image.width <= 600);
    const char *path = SCAN_TEMPORARY("street.png");
    REQUIRE_OK(picture_write_png(path, image.rgb, image.width, image.height));
    CHECK(png_shows(path, image.rgb, image.width, image.height));
    picture_free(&image);
    scan_free(&cloud);
}
