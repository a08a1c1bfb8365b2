// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/scan.cpp: the scans that the examples read and write: files made up byte by byte, one
// for each format, and one for each trap that files in the field hold. Writes to build/tmp.
#include "../support/test.h"

#include "../../examples/scan_file.h"

#include <array>
#include <math.h>
#include <set>
#include <string>
#include <sys/stat.h>
#include <vector>

using namespace spira;
using namespace scan;

// The path of a file in build/tmp; `name` is a literal.
#define SCAN_TEMPORARY(name) (mkdir("build", 0777), mkdir("build/tmp", 0777), "build/tmp/" name)

typedef std::string bytes;

// A value as it lies in a file. big: from the highest byte to the lowest
template <typename T>
static bytes stored(T value, bool big = false) {
    bytes text((const char *)&value, sizeof value);
    return big ? bytes(text.rbegin(), text.rend()) : text;
}

// Values one after the other, as T.
template <typename T>
static bytes row(std::initializer_list<double> values, bool big = false) {
    bytes text;
    for (double v : values) {
        text += stored((T)v, big);
    }
    return text;
}

// Two points with an intensity: what most files of this test hold.
static const std::vector<float> two = {1.5f, -2, 3.25f, 7, 4, 5.5f, -6, 9};

template <typename T>
static bytes two_as(bool big = false) {
    return row<T>({1.5, -2, 3.25, 7}, big) + row<T>({4, 5.5, -6, 9}, big);
}

static bytes npy(const char *header, const bytes &data, int version = 1) {
    bytes file = bytes("\x93NUMPY") + (char)version + '\0';
    const size_t start = version == 1 ? 10 : 12;
    const size_t length = 128 - start;
    file += version == 1 ? stored((uint16_t)length) : stored((uint32_t)length);
    file += header;
    file.resize(127, ' ');
    return file + '\n' + data;
}

static bytes npy_of(const char *type, const char *shape, const bytes &data,
                    const char *order = "False") {
    char header[128];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", type,
             order, shape);
    return npy(header, data);
}

struct archived {
    const char *name;
    bytes data;
};

// An archive. method: 0, or 8 for compressed arrays
static bytes npz_of(const std::vector<archived> &arrays, int method = 0) {
    bytes file, directory;
    for (const archived &a : arrays) {
        const bytes size = stored((uint32_t)a.data.size());
        const bytes common = stored((uint16_t)20) + stored((uint16_t)0) + stored((uint16_t)method) +
                             bytes(8, '\0') + size + size;
        const bytes length = stored((uint16_t)strlen(a.name));
        directory += bytes("PK\1\2") + stored((uint16_t)20) + common + length + bytes(12, '\0') +
                     stored((uint32_t)file.size()) + a.name;
        file += "PK\3\4" + common + length + stored((uint16_t)0) + a.name + a.data;
    }
    const bytes count = stored((uint16_t)arrays.size());
    return file + directory + "PK\5\6" + bytes(4, '\0') + count + count +
           stored((uint32_t)directory.size()) + stored((uint32_t)file.size()) + bytes(2, '\0');
}

static bytes npz(const char *name, const bytes &data, int method = 0, size_t arrays = 1) {
    return npz_of(std::vector<archived>(arrays, {name, data}), method);
}

// The header of a survey. format, version: minor; the records follow at byte 400
static bytes las(int version, int format, int length, uint32_t points, const bytes &records) {
    bytes file(400, '\0');
    const int header = version == 4 ? 375 : version == 3 ? 235 : 227;
    file.replace(0, 4, "LASF");
    file[24] = 1;
    file[25] = (char)version;
    file.replace(94, 2, stored((uint16_t)header));
    file.replace(96, 4, stored((uint32_t)400));
    file[104] = (char)format;
    file.replace(105, 2, stored((uint16_t)length));
    file.replace(107, 4, stored(format < 6 ? points : 0u));
    for (int a = 0; a < 3; ++a) {
        file.replace(131 + 8 * (size_t)a, 8, stored(0.25));
        file.replace(155 + 8 * (size_t)a, 8, stored(a == 0 ? 500000.0 : a == 1 ? 5400000.0 : 0.0));
    }
    if (version == 4) {
        file.replace(247, 8, stored((uint64_t)points));
    }
    return file + records;
}

static bytes las_record(int32_t x, int32_t y, int32_t z, uint16_t intensity, size_t length) {
    bytes record = stored(x) + stored(y) + stored(z) + stored(intensity);
    record.resize(length, '\0');
    return record;
}

// PCD: header lines and the data.
static bytes pcd(const bytes &lines, const bytes &data) {
    return "# .PCD v0.7\nVERSION 0.7\n" + lines + data;
}

static const char *const xyzi =
    "FIELDS x y z intensity\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\n"
    "WIDTH 2\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 2\n";

// The packed form: plain runs of at most 32 bytes, and a repetition where 3 bytes and more repeat.
static bytes pcd_packed(const bytes &full, const bytes &packed) {
    return stored((uint32_t)packed.size()) + stored((uint32_t)full.size()) + packed;
}

static bytes plain(const bytes &full) {
    return bytes(1, (char)(full.size() - 1)) + full;
}

// ---- what is read -------------------------------------------------------------------------------

struct good_file {
    const char *name;
    bytes content;
    int columns; // of a point
    std::vector<float> values;
    scan_options options;
};

// Writes a file and reads it. false: it was refused
static bool take(const char *name, const bytes &content, const scan_options *options,
                 scan_cloud *cloud, scan_reason *why, status *s) {
    static char path[256];
    snprintf(path, sizeof path, "%s%s", SCAN_TEMPORARY(""), name);
    return CHECK_OK(scan_write_bytes(path, content.data(), (int64_t)content.size())) &&
           (*s = scan_read(path, options, cloud, why), !status_failed(*s));
}

static void read_all(const std::vector<good_file> &files) {
    for (const good_file &f : files) {
        scan_cloud cloud;
        scan_reason why;
        status s;
        if (!take(f.name, f.content, &f.options, &cloud, &why, &s)) {
            test_fail(__FILE__, __LINE__, why.text);
            continue;
        }
        std::vector<float> got;
        for (int64_t i = 0; i < cloud.rows * cloud.columns; ++i) {
            got.push_back(cloud.points ? cloud.points[i] : (float)cloud.voxels[i]);
        }
        if (!CHECK(cloud.columns == f.columns && got == f.values)) {
            fprintf(stderr, "    %s\n", f.name);
        }
        scan_free(&cloud);
        scan_free(&cloud); // a second time does nothing
    }
}

static scan_options with(int columns, scan_indices indices = scan_indices_ask) {
    scan_options o = {};
    o.columns = columns;
    o.indices = indices;
    return o;
}

TEST(scan_reads_formats_without_a_header) {
    const bytes floats = two_as<float>();
    read_all({{"a.bin", floats, 4, two, with(4)},
              {"A.BIN", floats, 4, two, with(4)},
              {"b.bin", row<float>({1, 2, 3, 4, 5, 6, 7}), 7, {1, 2, 3, 4, 5, 6, 7}, with(7)},
              {"c.pcd.bin", row<float>({1, 2, 3, 4, 5}), 5, {1, 2, 3, 4, 5}, {}},
              {"d.xyz32", row<float>({1, 2, 3}), 3, {1, 2, 3}, {}},
              {"e.vox32", row<int32_t>({-5, 0, 7, 1, 2, 3}), 3, {-5, 0, 7, 1, 2, 3}, {}}});
}

TEST(scan_reads_numpy) {
    const bytes floats = two_as<float>();
    const bytes columns = row<float>({1.5, 4, -2, 5.5, 3.25, -6, 7, 9});
    const bytes halves = stored((uint16_t)0x3e00) + stored((uint16_t)0xc000) +
                         stored((uint16_t)0x0001) + stored((uint16_t)0x7bff);
    const bytes indices = row<int32_t>({0, 1, 2, 3, 0, 4, 5, 6});
    const bytes points = npy_of("<f4", "(1, 3)", row<float>({1.5, 2, 3}));
    const bytes voxels = npy_of("<i4", "(1, 3)", row<int32_t>({7, 8, 9}));
    read_all(
        {{"a.npy", npy_of("<f4", "(2, 4)", floats), 4, two, {}},
         {"b.npy", npy_of("<f8", "(2, 4)", two_as<double>()), 4, two, {}},
         {"c.npy", npy_of(">f8", "(2, 4)", two_as<double>(true)), 4, two, {}},
         {"d.npy", npy_of("<f4", "(2, 4)", columns, "True"), 4, two, {}},
         {"f.npy", npy_of("<f4", "(1, 2, 4)", floats), 4, two, {}},
         {"g.npy", npy_of("<f2", "(1, 4)", halves), 4, {1.5f, -2, ldexpf(1, -24), 65504}, {}},
         {"h.npy", npy_of("|u1", "(1, 3)", "\1\2\377"), 3, {1, 2, 255}, {}},
         {"i.npy",
          npy_of("<u4", "(1, 3)", row<uint32_t>({1, 2, 2147483647})),
          3,
          {1, 2, 2147483648.0f},
          {}},
         {"j.npy", npy_of("<i8", "(1, 3)", row<int64_t>({-1, 0, 5})), 3, {-1, 0, 5}, {}},
         {"k.npy",
          npy_of("<i4", "(2, 4)", indices),
          3,
          {1, 2, 3, 4, 5, 6},
          with(0, scan_indices_bxyz)},
         {"l.npy",
          npy_of("<i4", "(2, 4)", indices),
          3,
          {3, 2, 1, 6, 5, 4},
          with(0, scan_indices_bzyx)},
         {"m.npy",
          npy_of("<i4", "(2, 4)", indices),
          3,
          {0, 1, 2, 0, 4, 5},
          with(0, scan_indices_xyz)},
         {"n.npy",
          npy("{\"descr\" : \"<f4\", \"fortran_order\":False, \"shape\":( 2L ,4 , )}", floats, 2),
          4,
          two,
          {}},
         {"o.npy",
          npy("{'shape': (2, 4), 'fortran_order': False, 'descr': '<f4'}", floats, 3),
          4,
          two,
          {}},
         {"p.npz", npz("arr_0.npy", npy_of("<f4", "(2, 4)", floats)), 4, two, {}},
         {"q.npz", npz("points.npy", npy_of("<f4", "(2, 4)", floats), 0, 2), 4, two, {}},
         {"r.npz", npz("coord.npy", npy_of("<f4", "(2, 4)", floats), 0, 2), 4, two, {}},
         {"s.npz", npz_of({{"points.npy", points}, {"coords.npy", voxels}}), 3, {1.5f, 2, 3}, {}},
         {"t.npz", npz_of({{"coords.npy", voxels}, {"points.npy", points}}), 3, {1.5f, 2, 3}, {}}});
}

TEST(scan_reads_pcd) {
    const bytes floats = two_as<float>(), head = xyzi;
    const bytes planes =
        row<float>({1.5, 4}) + row<float>({-2, 5.5}) + row<float>({3.25, -6}) + row<float>({7, 9});
    const bytes text = "1.5 -2 3.25 7\n4 5.5 -6 9\n";
    // Fields as a driver of a sensor writes them: padding of several bytes, and of none.
    const bytes odd = "FIELDS label x _ y z _ intensity\nSIZE 1 8 1 8 8 4 2\nTYPE U F U F F U U\n"
                      "COUNT 1 1 3 1 1 0 1\nWIDTH 1\nHEIGHT 1\nPOINTS 1\n";
    const bytes record =
        "\5" + row<double>({1.5}) + bytes(3, '?') + row<double>({-2, 3.25}) + stored((uint16_t)700);
    const bytes old = "COLUMNS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 1\n";
    const bytes zeros = row<float>({0, 0, 0}); // 12 bytes: one, and 11 by a repetition
    read_all(
        {{"a.pcd", pcd(head, "DATA binary\n" + floats), 4, two, {}},
         {"b.pcd", pcd(head, "DATA ascii\n" + text), 4, two, {}},
         {"c.pcd",
          pcd(head, "DATA binary_compressed\n" + pcd_packed(planes, plain(planes))),
          4,
          two,
          {}},
         {"d.pcd", pcd(odd, "DATA binary\n" + record + "more"), 5, {1.5f, -2, 3.25f, 700, 5}, {}},
         {"e.pcd", pcd(old, "DATA ascii\r\n1 2 3\r\n"), 3, {1, 2, 3}, {}},
         {"g.pcd", "\xef\xbb\xbf" + old + "DATA ascii\n1 2 3\n", 3, {1, 2, 3}, {}},
         {"f.pcd",
          pcd(old, "DATA binary_compressed\n" +
                       pcd_packed(zeros, plain(bytes(1, '\0')) + bytes("\xe0\x02\x00", 3))),
          3,
          {0, 0, 0},
          {}}});
}

TEST(scan_reads_ply) {
    const bytes little = "ply\nformat binary_little_endian 1.0\n",
                big = "ply\nformat binary_big_endian 1.0\n", text = "ply\nformat ascii 1.0\n";
    const bytes vertex =
        "element vertex 2\nproperty float x\nproperty float32 y\nproperty float z\n"
        "property float scalar_Intensity\nend_header\n";
    const bytes doubles = "comment end_header\nelement vertex 2\nproperty double x\n"
                          "property float64 y\nproperty double z\nproperty double intensity\n"
                          "end_header\n";
    const bytes faces = "element face 2\nproperty list uchar int vertex_indices\n";
    const bytes lists = "\3" + row<int32_t>({0, 1, 2}) + "\2" + row<int32_t>({0, 1});
    const bytes colours =
        "obj_info made up\nelement vertex 1\nproperty uchar red\nproperty short z\n"
        "property int y\nproperty float nx\nproperty float x\nend_header\n";
    const bytes record = "\x80" + stored((int16_t)-3) + stored((int32_t)2) + row<float>({0.5, 1});
    read_all({{"a.ply", little + vertex + two_as<float>(), 4, two, {}},
              {"b.ply", big + vertex + two_as<float>(true), 4, two, {}},
              {"c.ply", text + vertex + "1.5 -2 3.25 7\n4 5.5 -6 9\n", 4, two, {}},
              {"d.ply", little + doubles + two_as<double>(), 4, two, {}},
              {"e.ply", little + faces + vertex + lists + two_as<float>(), 4, two, {}},
              {"f.ply",
               text + faces + vertex + "3 0 1 2\n2 0 1\n1.5 -2 3.25 7\n4 5.5 -6 9\n",
               4,
               two,
               {}},
              {"g.ply", little + colours + record, 5, {1, 2, -3, 128, 0.5f}, {}},
              {"h.ply",
               "ply\r\nformat ascii 1.0\r\nelement vertex 1\r\nproperty float x\r\n"
               "property float y\r\nproperty float z\r\nend_header\r\n1 2 3\r\n",
               3,
               {1, 2, 3},
               {}},
              // Lines that end in a carriage return: the line feed is the first byte of the data.
              {"i.ply",
               "ply\rformat binary_little_endian 1.0\relement vertex 1\rproperty uchar x\r"
               "property uchar y\rproperty uchar z\rend_header\r\n\2\3",
               3,
               {10, 2, 3},
               {}},
              {"j.ply", "\xef\xbb\xbf" + text + vertex + "1.5 -2 3.25 7\n4 5.5 -6 9\n", 4, two, {}},
              {"k.ply",
               text + "element vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
                      "element face 1\nproperty list uchar int i\nend_header\n1 2 3\n3 0 0 0\n",
               3,
               {1, 2, 3},
               {}}});
}

TEST(scan_reads_surveys) {
    const std::vector<float> want = {25, 50, 2.5f, 300, 2, 26, 50, 0, 7, 2};
    for (int version : {0, 2, 3, 4}) {
        for (int format : {0, 1, 6}) {
            const size_t length = format == 6 ? 33 : 31; // longer than the least
            bytes records =
                las_record(100, 200, 10, 300, length) + las_record(104, 200, 0, 7, length);
            records[format == 6 ? 16 : 15] = records[length + (format == 6 ? 16 : 15)] = 2;
            scan_cloud cloud;
            scan_reason why;
            status s;
            const scan_options none = {};
            if (format < 6 || version == 4) {
                const bytes file = las(version, format, (int)length, 2, records);
                REQUIRE(take("a.las", file, &none, &cloud, &why, &s));
                CHECK(cloud.origin[0] == 500000 && cloud.origin[1] == 5400000 &&
                      cloud.origin[2] == 0);
                CHECK(cloud.columns == 5 && memcmp(cloud.points, want.data(), 40) == 0);
                CHECK(cloud.intensity && cloud.intensity_scale == 1 / 65535.0f);
                scan_free(&cloud);
            }
        }
    }
}

TEST(scan_reads_text) {
    read_all({{"a.xyz", "1.5 -2 3.25 7\n4 5.5 -6 9", 4, two, {}},
              {"b.txt", "# a comment\n\n1.5\t-2\t3.25\t7\r\n4\t5.5\t-6\t9\r\n", 4, two, {}},
              {"c.csv", "X,Y,Z,Intensity\n1.5,-2,3.25,7\n4,5.5,-6,9\n", 4, two, {}},
              {"d.csv", "\"intensity\";\"z\";\"y\";\"x\"\n7;3.25;-2;1.5\n9;-6;5.5;4\n", 4, two, {}},
              {"e.pts", "2\n1.5 -2 3.25 7\n4 5.5 -6 9\n", 4, two, {}},
              {"f.asc", "//X Y Z\n1e0 2 3\n", 3, {1, 2, 3}, {}},
              {"g.csv", "\xef\xbb\xbfx,y,z\n1,2,3\n", 3, {1, 2, 3}, {}},
              {"h.csv", ",x,y,z\n0,1,2,3\n1,4,5,6\n", 3, {1, 2, 3, 4, 5, 6}, {}},
              {"i.csv", "\"\",\"x\",\"y\",\"z\"\n1,1,2,3\n", 3, {1, 2, 3}, {}},
              {"j.txt", "# made up\n# time x y z\n9 1 2 3\n", 4, {1, 2, 3, 9}, {}},
              {"k.asc", "//Z,Y,X\n1,2,3\n", 3, {3, 2, 1}, {}},
              {"l.txt", "# of y z and x\n1 2 3\n", 3, {1, 2, 3}, {}},
              {"m.csv", "1, 2, 3,\n4 ; 5 ;6\n  7,8, 9 \n", 3, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {}}});
}

// Rows that did not return are left out and counted, and the rows of the file are known.
TEST(scan_leaves_out_what_did_not_return) {
    const double none = (double)NAN, far_off = (double)INFINITY;
    const bytes file =
        npy_of("<f4", "(2, 2, 4)",
               row<float>({none, none, none, 0, 1, 2, 3, none, 4, far_off, 6, 1, 7, 8, 9, 200}));
    scan_cloud cloud;
    scan_reason why;
    status s;
    const scan_options options = {};
    REQUIRE(take("organised.npy", file, &options, &cloud, &why, &s));
    const float want[] = {1, 2, 3, 0, 7, 8, 9, 200};
    CHECK(cloud.rows == 2 && cloud.dropped == 2 && cloud.zeroed == 1);
    CHECK(memcmp(cloud.points, want, sizeof want) == 0);
    CHECK(cloud.source && cloud.source[0] == 1 && cloud.source[1] == 3);
    CHECK(cloud.intensity_scale == 1 / 255.0f);
    scan_free(&cloud);
}

// A grid of 24^3 voxels of 0.1 m in UTM: no two of its points become one.
TEST(scan_keeps_what_lies_far_off_apart) {
    bytes data;
    for (int i = 0; i < 24 * 24 * 24; ++i) {
        data += row<double>(
            {500000.05 + 0.1 * (i / 576), 5400000.05 + 0.1 * (i / 24 % 24), 0.05 + 0.1 * (i % 24)});
    }
    scan_cloud cloud;
    scan_reason why;
    status s;
    const scan_options options = {};
    REQUIRE(take("utm.npy", npy_of("<f8", "(13824, 3)", data), &options, &cloud, &why, &s));
    bool right = cloud.rows == 13824 && cloud.origin[1] == 5400000;
    for (int i = 0; right && i < 24 * 24 * 24; ++i) {
        const int want[3] = {i / 576, i / 24 % 24, i % 24};
        for (int a = 0; a < 3; ++a) {
            right = right && (int)floorf(cloud.points[3 * i + a] / 0.1f) == want[a];
        }
    }
    CHECK(right && cloud.rounded == 0);
    scan_free(&cloud);
    // The same with a row of zeros, which is far from all others.
    const bytes zeros = row<double>({0, 0, 0}) + data;
    REQUIRE(take("zeros.npy", npy_of("<f8", "(13825, 3)", zeros), &options, &cloud, &why, &s));
    CHECK(cloud.rounded == 1 && fabs(cloud.origin[0] - 499900) <= 100 &&
          fabs(cloud.origin[1] - 5399900) <= 100);
    std::set<std::array<int, 3>> voxels;
    for (int64_t i = 1; i < cloud.rows; ++i) {
        const float *p = cloud.points + 3 * i;
        voxels.insert(
            {(int)floorf(p[0] / 0.1f), (int)floorf(p[1] / 0.1f), (int)floorf(p[2] / 0.1f)});
    }
    CHECK(voxels.size() == 13824);
    scan_free(&cloud);
    const bytes sensor = "-50 1 2\n1 50 3\n2 -3 1\n65535 65535 65535\n";
    REQUIRE(take("sensor.xyz", sensor, &options, &cloud, &why, &s));
    CHECK(cloud.origin[0] == 0 && cloud.origin[1] == 0 && cloud.points[0] == -50);
    scan_free(&cloud);
    scan_options exact = {};
    exact.exact = true;
    REQUIRE(take("utm.npy", npy_of("<f8", "(13824, 3)", data), &exact, &cloud, &why, &s));
    CHECK(cloud.origin[1] == 0 && cloud.points[1] == 5400000.0f);
    scan_free(&cloud);
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
        scan_reason why;
        const scan_options options = with(4);
        REQUIRE_OK(scan_read(path, &options, &cloud, &why));
        CHECK(cloud.rows == c.rows && cloud.columns == c.columns && !cloud.dropped);
        if (cloud.voxels) {
            int32_t lo[3], hi[3];
            CHECK_OK(scan_bounds_voxels(&cloud, lo, hi));
            CHECK(lo[0] == 0 && lo[1] == 0 && lo[2] == 0); // as data/README.md says
        }
        scan_free(&cloud);
    }
}

// ---- what is refused ----------------------------------------------------------------------------

struct bad_file {
    const char *name;
    bytes content;
    status_code code;
    const char *part; // of the reason
    scan_options options;
};

static void refuse_all(const std::vector<bad_file> &files) {
    for (const bad_file &f : files) {
        scan_cloud cloud;
        scan_reason why;
        status s = status_success();
        memset(&cloud, 0xff, sizeof cloud);
        const bool taken = take(f.name, f.content, &f.options, &cloud, &why, &s);
        const bool told = !taken && s.subject == why.text && strstr(why.text, f.name) &&
                          strstr(why.text, f.part) && s.code == f.code;
        if (!CHECK(told && !cloud.rows && !cloud.points && !cloud.voxels && !cloud.source)) {
            fprintf(stderr, "    %s: wanted \"%s\": %s\n", f.name, f.part,
                    taken ? "read" : why.text);
        }
    }
}

TEST(scan_refuses_what_a_file_does_not_say) {
    const bytes floats = two_as<float>(), indices = row<int32_t>({0, 1, 2, 3, 1, 4, 5, 6});
    refuse_all({{"a.bin", floats, status_bad_size, "--columns", {}},
                {"b.bin", floats, status_bad_size, "3 to 65536", with(2)},
                {"c.bin", floats, status_file_format, "32 bytes are no whole rows of 5", with(5)},
                {"d.pcd.bin", bytes(19, '\0'), status_file_format, "whole rows", {}},
                {"e.vox32", bytes(13, '\0'), status_file_format, "whole rows", {}},
                {"f.npy", npy_of("<i4", "(2, 4)", indices), status_bad_size, "--indices", {}},
                {"g.npy", npy_of("<i4", "(2, 4)", indices), status_file_format,
                 "row 1 has batch index 1, row 0 0", with(0, scan_indices_bxyz)},
                {"h.npy", npy_of("<i4", "(2, 3)", indices), status_bad_size, "no batch index",
                 with(0, scan_indices_bxyz)}});
}

TEST(scan_refuses_suffixes_with_a_remedy) {
    refuse_all({{"a.laz", "x", status_unsupported, "laszip", {}},
                {"a.e57", "x", status_unsupported, "CloudCompare", {}},
                {"a.BAG", "x", status_unsupported, "bag_to_pcd", {}},
                {"a.gz", "x", status_unsupported, "none of .bin", {}},
                {"a.las",
                 "version https://git-lfs.github.com/spec/v1\n",
                 status_file_format,
                 "git lfs pull",
                 {}}});
    scan_cloud cloud;
    scan_reason why;
    const scan_options none = {};
    CHECK_STATUS(scan_read(nullptr, &none, &cloud, &why), status_null_pointer);
    CHECK_STATUS(scan_read("a.npy", nullptr, &cloud, &why), status_null_pointer);
    CHECK_STATUS(scan_read("a.npy", &none, nullptr, &why), status_null_pointer);
    CHECK_STATUS(scan_read("a.npy", &none, &cloud, nullptr), status_null_pointer);
    CHECK_STATUS(scan_read("build/tmp/none/a.npy", &none, &cloud, &why), status_file_open);
    CHECK(strstr(why.text, "build/tmp/none/a.npy: No such file"));
    const char *folder = SCAN_TEMPORARY("folder.bin");
    mkdir(folder, 0777);
    CHECK_STATUS(scan_read(folder, &none, &cloud, &why), status_file_open);
}

TEST(scan_refuses_empty_files) {
    const bytes none = row<float>({(double)NAN, 1, 2});
    refuse_all({{"a.bin", "", status_file_empty, "no bytes", with(4)},
                {"a.ply", "", status_file_empty, "no bytes", {}},
                {"b.txt", "# nothing\n", status_file_empty, "no rows", {}},
                {"c.npy", npy_of("<f4", "(0, 3)", ""), status_file_empty, "no rows", {}},
                {"d.xyz32", none, status_file_empty, "none of its 1 rows", {}},
                {"e.las", las(2, 0, 20, 0, ""), status_file_empty, "no rows", {}}});
}

TEST(scan_refuses_numpy) {
    const bytes floats = two_as<float>();
    const char *const type = "its type is", *const shape = "its shape", *const keys = "lacks descr";
    const status_code bad = status_file_format;
    refuse_all(
        {{"a.npy", npy_of("<c8", "(2, 4)", floats), bad, "its type is '<c8'; known", {}},
         {"a.npy", npy_of("<f44", "(2, 4)", floats), bad, type, {}},
         {"a.npy",
          npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2, 4)}", floats),
          bad,
          type,
          {}},
         {"b.npy", npy_of("<f4", "(4, 2)", floats), bad, shape, {}},
         {"b.npy", npy_of("<f4", "(8,)", floats), bad, "its shape (8,) is neither", {}},
         {"b.npy", npy_of("<f4", "(3, 300)", bytes(3600, '\0')), bad, "moveaxis", {}},
         {"b.npy", npy_of("|u1", "(3, 2, 300)", bytes(1800, '\0')), bad, "moveaxis", {}},
         {"b.npy", npy_of("<f4", "()", floats), bad, shape, {}},
         {"b.npy", npy_of("<f4", "(1, 1, 2, 4)", floats), bad, shape, {}},
         {"b.npy", npy_of("<f4", "(-2, 4)", floats), bad, shape, {}},
         {"b.npy", npy_of("<f4", "(1, 99999999999999999999)", floats), bad, shape, {}},
         {"c.npy", npy_of("<f4", "(1, 2, 4)", floats, "True"), bad, "ascontiguousarray", {}},
         {"d.npy", npy("{'fortran_order': False, 'shape': (2, 4)}", floats), bad, keys, {}},
         {"d.npy", npy("{'descr': '<f4', 'shape': (2, 4)}", floats), bad, keys, {}},
         {"d.npy",
          npy("{'descr', 'fortran_order': False, 'shape': (2, 4)}", floats),
          bad,
          keys,
          {}},
         {"e.npy", npy_of("<f4", "(3, 4)", floats), bad, "ends before", {}},
         {"e.npy", npy_of("<f8", "(2147483647, 65536)", ""), bad, "ends before", {}},
         {"f.npy", npy_of("<f4", "(2147483648, 3)", ""), status_bad_size, "2147483648 rows", {}},
         {"f.npy",
          npy_of("<f4", "(1073741824, 17179869184, 3)", ""), // 2^64 rows
          status_bad_size,
          "17179869184 rows",
          {}},
         {"g.npy", "\x93NUMPX" + bytes(200, '\0'), bad, "NUMPY", {}},
         {"g.npy", "\x93NUMPY\4" + bytes(200, '\0'), bad, "version 4.0", {}},
         {"h.npy",
          npy_of("<f8", "(1, 3)", row<double>({1e300, 0, 0})),
          status_not_finite,
          "row 0",
          {}},
         {"h2.npy", // nanoseconds, a tenth of a second of them: float64 has steps of 256 there
          npy_of("<f8", "(3, 3)",
                 row<double>({1.7e18, 0, 0, 1.7e18 + 5e7, 0, 0, 1.7e18 + 1e8, 0, 0})),
          status_not_finite,
          "row 0",
          {}},
         {"i.npy", npy_of("<i8", "(1, 3)", row<int64_t>({0, 0, 2147483648.0})), bad, "32 bits", {}},
         {"j.npz", npz("a.npy", npy_of("<f4", "(2, 4)", floats), 8), bad, "savez_compressed", {}},
         {"k.npz", npz("a.npy", npy_of("<f4", "(2, 4)", floats), 0, 2), bad, "2 arrays", {}},
         {"l.npz", "PK\3\4" + bytes(100, '\0'), bad, "directory", {}}});
}

TEST(scan_refuses_other_formats) {
    const bytes head = xyzi, text = "ply\nformat ascii 1.0\n", one = "element vertex 1\n",
                places = "property float x\nproperty float y\nproperty float z\n";
    const bytes none = "FIELDS x y z\nCOUNT 0 0 0\nPOINTS 0\n";
    const bytes damaged = pcd_packed(row<float>({1, 2, 3, 4, 5, 6, 7, 8}), bytes("\x20\x7f", 2));
    const status_code bad = status_file_format;
    refuse_all(
        {{"a.pcd", pcd(head, ""), bad, "no line DATA", {}},
         {"b.pcd", pcd("", "DATA ascii\n1 2 3\n"), bad, "no line FIELDS", {}},
         {"c.pcd", pcd(head, "DATA binary\n" + row<float>({1, 2, 3, 4})), bad, "after 1 of 2", {}},
         {"d.pcd", pcd(head, "DATA ascii\n1 2 3 4\n"), bad, "after 1 of 2 rows", {}},
         {"e.pcd", pcd(head, "DATA ascii\n1 2 3 4\n1 2 3\n"), bad, "has 3 numbers", {}},
         {"f.pcd", pcd(head, "DATA ascii1 2 3 4\n"), bad, "DATA is ascii1", {}},
         {"g.pcd", pcd(head, "DATA binary_compressed\n" + damaged), bad, "damaged", {}},
         {"g2.pcd",
          pcd("FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 1\nHEIGHT 2\nPOINTS 1\n",
              "DATA ascii\n1 2 3\n"),
          bad,
          "WIDTH 1 times HEIGHT 2",
          {}},
         {"g3.pcd",
          pcd("FIELDS x y z\nWIDTH 100000000000\nHEIGHT 300000000000\n", "DATA ascii\n1 2 3\n"),
          bad,
          "more than 2^31",
          {}},
         {"g4.pcd", pcd(none, "DATA binary\n123"), bad, "no values", {}},
         {"g4.pcd", pcd(none, "DATA ascii\n"), bad, "no values", {}},
         {"g4.pcd", pcd(none, "DATA binary_compressed\n" + bytes(8, '\0')), bad, "no values", {}},
         {"g5.pcd", pcd("FIELDS _\nPOINTS 1\n", "DATA binary\n1234"), bad, "no values", {}},
         {"g6.pcd", pcd(head, "DATA ascii\n1 2 3 4\n5 6 7 8\n9 9 9 9\n"), bad, "joined", {}},
         {"g7.pcd",
          pcd(head, "DATA binary_compressed_by_something_of_ours\n"),
          bad,
          "DATA is binary_compressed_by",
          {}},
         {"g8.pcd",
          pcd("FIELDS x y z x\nPOINTS 1\n", "DATA ascii\n1 2 3 4\n"),
          bad,
          "two columns x",
          {}},
         {"h.pcd", pcd("FIELDS x y\nSIZE 4 4 4\n", ""), bad, "3 values for 2 fields", {}},
         {"i.pcd", pcd("FIELDS a b c\nWIDTH 1\n", "DATA ascii\n1 2 3\n"), bad, "no column x", {}},
         {"j.pcd",
          pcd("FIELDS x y z\nTYPE F F Q\nWIDTH 1\n", "DATA binary\n" + bytes(12, '\0')),
          bad,
          "type Q4",
          {}},
         {"a.ply", "plyx\n", bad, "line ply", {}},
         {"b.ply", text + one + places, bad, "end_header", {}},
         {"c.ply", text + places + "end_header\n", bad, "before any element", {}},
         {"d.ply", "ply\nformat binary 1.0\n" + one + places + "end_header\n", bad, "none of", {}},
         {"e.ply",
          text + "element face 0\nproperty float x\nend_header\n",
          bad,
          "no element vertex",
          {}},
         {"f.ply",
          text + one + "property list uchar int x\nend_header\n1 1\n",
          bad,
          "hold a list",
          {}},
         {"g.ply",
          "ply\nformat binary_little_endian 1.0\n" + one + places + "end_header\n1234",
          bad,
          "after 0 of 1",
          {}},
         {"a.las", bytes(300, 'x'), bad, "LASF", {}},
         {"a.las", "LASF" + bytes(200, '\0'), bad, "within its header", {}},
         {"b.las", las(2, 128, 34, 1, ""), bad, "LAZ", {}},
         {"c.las", las(2, 3, 33, 1, ""), bad, "records of 33", {}},
         {"d.las", las(2, 0, 20, 1, "short"), bad, "ends before its 1 points", {}},
         {"a.txt", "1 2 3\n1 2\n", bad, "line 2 has 2 numbers", {}},
         {"b.txt", "1 2 3\n1 2 x\n", bad, "line 2: \"x\" is no number", {}},
         {"c.txt", bytes("1 2 \0", 5), bad, "bytes of 0", {}},
         {"d.txt", "1 2\n", bad, "2 columns", {}},
         {"e.csv", "a,b,c\n1,2,3\n", bad, "no column x", {}},
         {"f.pts", "3\n1 2 3\n", bad, "after 1 of 3", {}},
         {"g.pts", "1\n1 2 3\n1\n4 5 6\n", bad, "line 3 stands behind", {}},
         {"h.csv", "1,5;2,5;3,5\n", bad, "line 1 has decimal commas", {}},
         {"i.xyz", "1 2 3\n1,5 2,5 3,5\n", bad, "line 2 has decimal commas", {}},
         {"j.csv", "1,2,,4\n5,6,,8\n", bad, "an empty field", {}},
         {"j.csv", ",2,3,4\n,6,7,8\n", bad, "an empty field", {}},
         {"k.txt", "1\t2\t3\n4\t\t5\n", bad, "line 2 has 2 numbers", {}},
         {"l.txt", bytes("1\0 2\0 3\0", 8), bad, "UTF-8", {}},
         {"m.csv", "x,y,z,X\n1,2,3,4\n", bad, "two columns x", {}}});
}

// Damaged files are read or refused, and nothing outside of them is touched (run it under the
// address sanitizer): each format with random bytes changed, and cut at each length.
TEST(scan_survives_damaged_files) {
    const bytes planes = two_as<float>();
    const bytes whole[] = {
        npy_of("<f4", "(2, 4)", two_as<float>()),
        npz("points.npy", npy_of("<f4", "(2, 4)", two_as<float>())),
        pcd(xyzi, "DATA binary\n" + two_as<float>()),
        pcd(xyzi, "DATA binary_compressed\n" + pcd_packed(planes, plain(planes))),
        bytes("ply\nformat binary_little_endian 1.0\nelement face 1\n"
              "property list uchar int i\nelement vertex 1\nproperty float x\n"
              "property float y\nproperty float z\nend_header\n") +
            "\1" + row<int32_t>({0}) + row<float>({1, 2, 3}),
        las(4, 6, 30, 1, las_record(1, 2, 3, 4, 30)),
        "x y z\n1 2 3\n4 5 6\n",
    };
    const char *const names[] = {"z.npy", "z.npz", "z.pcd", "z.pcd", "z.ply", "z.las", "z.txt"};
    uint32_t random = 1;
    for (int f = 0; f < 7; ++f) {
        const int times = test_quick() ? 60 : 400;
        for (int i = 0; i < times; ++i) {
            bytes file = whole[f];
            for (int changes = i % 3; changes >= 0; --changes) {
                random = random * 1664525u + 1013904223u;
                file[(random >> 8) % file.size()] = (char)(random >> 3);
            }
            if (i % 4 == 3) {
                file.resize((size_t)i % file.size());
            }
            scan_cloud cloud;
            scan_reason why;
            status s = status_success();
            const scan_options options = {};
            const bool taken = take(names[f], file, &options, &cloud, &why, &s);
            CHECK(taken || s.code != status_ok);
            scan_free(&cloud);
        }
    }
}

// ---- writing ------------------------------------------------------------------------------------

TEST(scan_round_trips) {
    const std::vector<float> points(two);
    const int32_t voxels[6] = {INT32_MIN, INT32_MAX, 0, 0x7f800000, -1, 7};
    const char *const a = SCAN_TEMPORARY("round.pcd.bin"), *const b = SCAN_TEMPORARY("round.vox32");
    const float five[5] = {1, 2, 3, 4, 5};
    scan_cloud cloud;
    scan_reason why;
    const scan_options none = {};
    REQUIRE_OK(scan_write_floats(a, five, 1, 5));
    REQUIRE_OK(scan_read(a, &none, &cloud, &why));
    CHECK(cloud.rows == 1 && memcmp(cloud.points, five, sizeof five) == 0);
    scan_free(&cloud);
    REQUIRE_OK(scan_write_voxels(b, voxels, 2));
    REQUIRE_OK(scan_read(b, &none, &cloud, &why));
    CHECK(cloud.rows == 2 && memcmp(cloud.voxels, voxels, sizeof voxels) == 0);
    scan_free(&cloud);
    scan_free(nullptr);
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

// ---- bounds -------------------------------------------------------------------------------------

TEST(scan_bounds) {
    float points[8] = {1, -2, 3, 100, -4, 5, 0.5f, -100}; // the last of each row is an intensity
    int32_t voxels[6] = {INT32_MAX, -2, 3, INT32_MIN, 5, 3};
    scan_cloud of_points = {}, of_voxels = {};
    of_points.rows = of_voxels.rows = 2;
    of_points.columns = 4;
    of_points.points = points;
    of_voxels.voxels = voxels;
    float lo[3], hi[3];
    int32_t low[3], high[3];
    CHECK_OK(scan_bounds_points(&of_points, lo, hi));
    CHECK(lo[0] == -4 && lo[1] == -2 && lo[2] == 0.5f && hi[0] == 1 && hi[1] == 5 && hi[2] == 3);
    CHECK_OK(scan_bounds_voxels(&of_voxels, low, high));
    CHECK(low[0] == INT32_MIN && low[1] == -2 && low[2] == 3);
    CHECK(high[0] == INT32_MAX && high[1] == 5 && high[2] == 3);

    float odd[12] = {NAN, 1, 2, 5, INFINITY, -7, 4, 3, -INFINITY, -6, 9, NAN};
    scan_cloud some = {};
    some.rows = 4;
    some.columns = 3;
    some.points = odd;
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
