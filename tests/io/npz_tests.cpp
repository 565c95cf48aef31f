// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/npz.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"
#include "io/support/zip_files.hpp"

namespace sluice::io::npz_tests {
namespace {

using testing::array_bytes;
using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::label;
using testing::little_endian;
using testing::zip_bytes;
using testing::zip_part;

const std::filesystem::path data_directory = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/io/data";

std::vector<std::string> names_in(const npz_view& view) {
    std::vector<std::string> names;
    for (const npz_member& each : view.members()) names.push_back(each.name);
    return names;
}

std::vector<float> numbers_of(const std::string& file, std::string_view name, npz_limits limits = {}) {
    return npz_view(bytes_of(file), label, limits).read(name).view().values<float>();
}

// Opening the archive and reading all of it must be refused with a message that has these words.
template <typename... Words>
void expect_archive_refused(const std::string& file, Words... words) {
    try {
        const npz_view view(bytes_of(file), label);
        for (const npz_member& each : view.members()) static_cast<void>(view.read(each));
        ADD_FAILURE() << "was accepted";
    } catch (const file_error& refused) {
        EXPECT_THAT(refused.what(), ::testing::AllOf(::testing::StartsWith(label.string()), HasSubstr(words)...));
        EXPECT_EQ(refused.code(), make_error_code(errc::bad_file));
    }
}

// A raw deflate stream of one stored block.
std::string stored_block(std::string_view bytes) {
    return std::string(1, '\1') + little_endian(bytes.size(), 2) + little_endian(~bytes.size(), 2) + std::string(bytes);
}

void expect_all_arrays(const char* name) {
    const npz_file file(data_directory / name);
    EXPECT_THAT(names_in(file.view()), ElementsAre("x", "tokens", "scalar", "a/b", "größe"));
    const npz_array x = file.read("x");
    EXPECT_EQ(x.view().shape(), (std::vector<std::size_t>{2, 3}));
    EXPECT_THAT(x.view().values<float>(), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(file.read("tokens").view().values<std::int64_t>(), ElementsAre(7, -1, (std::int64_t{1} << 62) + 1));
    EXPECT_THAT(file.read("scalar").view().values<std::uint8_t>(), ElementsAre(9));
    EXPECT_THAT(file.read("a/b").view().values<double>(), ElementsAre(0.5));
    EXPECT_THAT(file.read("größe").view().values<std::int32_t>(), ElementsAre(1, 2));
    file.file().require_unchanged();
}

}  // namespace

TEST(npz, reads_what_numpy_saves) { expect_all_arrays("stored.npz"); }

TEST(npz, reads_what_numpy_saves_compressed) {
    if (!zlib_supported()) GTEST_SKIP() << "there is no zlib here";
    expect_all_arrays("deflated.npz");
}

TEST(npz, reads_archives_whose_sizes_follow_the_data) {
    if (!zlib_supported()) GTEST_SKIP() << "there is no zlib here";
    expect_all_arrays("streamed.npz");
}

TEST(npz, leaves_stored_arrays_where_they_are) {
    const std::string file = zip_bytes({{"x.npy", array_bytes({1, 2})}}, "a comment");
    const npz_view view(bytes_of(file), label);
    const npz_array x = view.read("x");
    EXPECT_EQ(x.view().data().data() + x.view().data().size(),
              bytes_of(file).data() + view.members()[0].data_offset + view.members()[0].bytes);
    EXPECT_THAT(x.view().values<float>(), ElementsAre(1, 2));
    EXPECT_EQ(x.view().path(), label.string() + ":x");
}

TEST(npz, takes_only_members_that_end_in_npy_as_arrays) {
    const std::string file = zip_bytes({{"notes.txt", "hello"}, {"x.npy", array_bytes({1})}, {"x", "not an array"}});
    EXPECT_THAT(names_in(npz_view(bytes_of(file), label)), ElementsAre("x"));
    EXPECT_THAT(names_in(npz_view(bytes_of(zip_bytes({})), label)), ElementsAre());
}

TEST(npz, names_the_arrays_that_there_are) {
    const std::string file = zip_bytes({{"x.npy", array_bytes({1})}, {"y.npy", array_bytes({1})}});
    testing::expect_refused([&] { numbers_of(file, "z"); },
                            {file_error::no_offset, "member", "there is no array 'z'; there are 'x', 'y'"});
    testing::expect_refused([&] { numbers_of(zip_bytes({}), "z"); },
                            {file_error::no_offset, "member", "there are none"});
}

TEST(npz, reads_sizes_from_the_field_of_zip64) {
    const std::string array = array_bytes({1, 2});
    zip_part part{"x.npy", array};
    part.extra = little_endian(0xcafe, 2) + little_endian(1, 2) + "?" + little_endian(1, 2) + little_endian(8, 2) +
                 little_endian(array.size(), 8);
    EXPECT_THAT(numbers_of(zip_bytes({part}), "x"), ElementsAre(1, 2));
    part.extra = little_endian(1, 2) + little_endian(4, 2) + little_endian(array.size(), 4);
    expect_archive_refused(zip_bytes({part}), "zip64", "the field is too short");
    part.extra = little_endian(2, 2) + little_endian(0, 2);
    expect_archive_refused(zip_bytes({part}), "zip64", "its field is not there");
    part.extra = little_endian(1, 2) + little_endian(80, 2);
    expect_archive_refused(zip_bytes({part}), "extra field", "reaches past its end");
}

TEST(npz, reads_the_directory_of_zip64) {
    const zip_part part{"x.npy", array_bytes({5})};
    const std::string member = testing::local_header(part) + part.data, entry = testing::directory_entry(part, 0);
    const auto file_with = [&](std::uint64_t members, std::uint64_t place) {
        return member + entry + "PK\6\6" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) +
               little_endian(0, 8) + little_endian(members, 8) + little_endian(members, 8) +
               little_endian(entry.size(), 8) + little_endian(member.size(), 8) + "PK\6\7" + little_endian(0, 4) +
               little_endian(place, 8) + little_endian(1, 4) + testing::end_record(0xffff, 0xffff'ffff, 0xffff'ffff);
    };
    const std::uint64_t place = member.size() + entry.size();
    EXPECT_THAT(numbers_of(file_with(1, place), "x"), ElementsAre(5));
    expect_archive_refused(file_with(1, place + 1), "zip64", "names a place without its record");
    expect_archive_refused(file_with(1, ~std::uint64_t{0}), "zip64", "names a place without its record");
    expect_archive_refused(file_with(std::uint64_t{1} << 60, place), "members", "more than the directory has room for");
    expect_archive_refused(member + entry + testing::end_record(0xffff, 5, 5), "zip64", "its record is not there");
}

TEST(npz, refuses_every_file_that_is_cut_off) {
    const std::string file = zip_bytes({{"x.npy", array_bytes({1, 2})}, {"y.npy", array_bytes({3})}});
    for (std::size_t length = 0; length < file.size(); ++length) {
        SCOPED_TRACE(length);
        expect_archive_refused(file.substr(0, length), "archive");
    }
}

TEST(npz, refuses_or_reads_every_file_with_a_wrong_byte) {
    const std::string good = zip_bytes({{"x.npy", array_bytes({1, 2})}});
    for (std::size_t at = 0; at < good.size(); ++at) {
        for (const char wrong : {'\0', '\1', '\x7f', '\xff'}) {
            std::string file = good;
            file[at] = wrong;
            try {
                const npz_view view(bytes_of(file), label);
                for (const npz_member& each : view.members()) {
                    // What the CRC covers is never another array.
                    EXPECT_THAT(view.read(each).view().values<float>(), ElementsAre(1, 2));
                }
            } catch (const file_error&) {
            }
        }
    }
}

TEST(npz, refuses_what_comes_before_or_after_the_archive) {
    const std::string file = zip_bytes({{"x.npy", array_bytes({1})}});
    expect_archive_refused("before" + file, "something comes before the archive");
    expect_archive_refused(file + "after", "is not at its end");
}

TEST(npz, refuses_names_that_are_no_names_or_are_there_twice) {
    const std::string array = array_bytes({1});
    expect_archive_refused(zip_bytes({{"x.npy", array}, {"x.npy", array}}), "name", "'x.npy' is there twice");
    expect_archive_refused(zip_bytes({{"", array}}), "name", "is empty");
    expect_archive_refused(zip_bytes({{".npy", array}}), "name", "an array has no name");
    expect_archive_refused(zip_bytes({{std::string("x\0y.npy", 7), array}}), "name", "has a zero byte");
    zip_part other{"x.npy", array};
    other.name_here = "y.npy";
    expect_archive_refused(zip_bytes({other}), "name", "the member's header another one");
}

TEST(npz, shows_odd_names_printably) {
    for (const std::string name : {"../../etc/passwd", "/dev/null", "a\nb", "\x1b[2J", "\xff"}) {
        const std::string file = zip_bytes({{name + ".npy", array_bytes({4})}});
        EXPECT_THAT(numbers_of(file, name), ElementsAre(4));  // a name opens no file
        const std::string broken = zip_bytes({{name + ".npy", "no array"}});
        expect_archive_refused(broken, "not a .npy file");
        try {
            numbers_of(broken, name);
        } catch (const file_error& refused) {
            EXPECT_THAT(refused.what(), ::testing::Not(::testing::AnyOf(HasSubstr("\n"), HasSubstr("\x1b"))));
        }
    }
}

TEST(npz, refuses_what_is_not_supported) {
    zip_part part{"x.npy", array_bytes({1})};
    part.method = 12;
    expect_archive_refused(zip_bytes({part}), "method 12; supported are 0 (stored) and 8 (deflated)");
    part.method = 0;
    part.flags = 1;
    expect_archive_refused(zip_bytes({part}), "flags", "is encrypted");
}

TEST(npz, refuses_sizes_that_are_not_those_of_the_data) {
    zip_part part{"x.npy", array_bytes({1})};
    part.bytes += 1;
    expect_archive_refused(zip_bytes({part}), "size", "and is stored");
    part = {"x.npy", "tiny"};
    part.method = 8;
    part.bytes = 1 << 20;
    expect_archive_refused(zip_bytes({part}), "size", "which deflating cannot do");
    part = {"x.npy", array_bytes({1})};
    part.crc ^= 1;
    expect_archive_refused(zip_bytes({part}), "CRC", "is not that of its data");
}

TEST(npz, refuses_members_that_overlap) {
    const std::string array = array_bytes({1});
    zip_part second{"x.npy", array};
    second.offset_less = testing::local_header(second).size() + array.size();  // both are the first one
    second.name = "y.npy";
    second.name_here = "x.npy";
    expect_archive_refused(zip_bytes({{"x.npy", array}, second}), "name");
    // A member whose data holds another one.
    const zip_part inner{"y.npy", array};
    const std::string inside = testing::local_header(inner) + inner.data;
    const zip_part outer{"x.npy", array + inside};
    const std::string member = testing::local_header(outer) + outer.data;
    const std::string directory =
        testing::directory_entry(outer, 0) + testing::directory_entry(inner, member.size() - inside.size());
    expect_archive_refused(member + directory + testing::end_record(2, directory.size(), member.size()),
                           "'x.npy' and 'y.npy' overlap");
}

TEST(npz, bounds_what_it_inflates) {
    if (!zlib_supported()) GTEST_SKIP() << "there is no zlib here";
    const std::string array = array_bytes({1, 2, 3});
    zip_part part{"x.npy", stored_block(array), array.size(), 8};
    part.crc = testing::crc_of(array);
    const std::string file = zip_bytes({part});
    EXPECT_THAT(numbers_of(file, "x"), ElementsAre(1, 2, 3));
    EXPECT_THAT(numbers_of(file, "x", {.inflated_bytes = array.size()}), ElementsAre(1, 2, 3));
    testing::expect_refused([&] { numbers_of(file, "x", {.inflated_bytes = array.size() - 1}); },
                            {0, "size", "compressed arrays may have " + std::to_string(array.size() - 1)});
}

TEST(npz, refuses_compressed_data_that_is_damaged) {
    if (!zlib_supported()) GTEST_SKIP() << "there is no zlib here";
    const std::string array = array_bytes({1, 2, 3});
    const auto expect_damaged = [&](const std::string& data, std::uint64_t bytes) {
        zip_part part{"x.npy", data, bytes, 8};
        part.crc = testing::crc_of(array);
        expect_archive_refused(zip_bytes({part}), "data", "the data of 'x' is damaged");
    };
    const std::string stream = stored_block(array);
    expect_damaged(stream.substr(0, stream.size() - 1), array.size());
    expect_damaged(stream + "more", array.size());
    expect_damaged(stream, array.size() + 1);
    expect_damaged(stream, array.size() - 1);
    expect_damaged("\x07garbage", array.size());
    expect_damaged("", 0);
}

TEST(npz, says_which_library_is_missing) {
    if (zlib_supported()) GTEST_SKIP() << "zlib is there";
    testing::expect_error([] { static_cast<void>(npz_file(data_directory / "deflated.npz").read("x")); },
                          errc::unsupported);
}

}  // namespace sluice::io::npz_tests
