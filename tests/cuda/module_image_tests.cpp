// SPDX-License-Identifier: Apache-2.0
// The check of a module's bytes: the driver never reads a file that is cut or is something else.
#include "cuda/module_image.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "conformance/expect_refused.hpp"

namespace sluice::cuda::module_image_tests {
namespace {

using conformance::expect_refused;

std::span<const std::byte> bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

template <typename T>
void put(std::string& in, std::size_t at, T number) {
    std::memcpy(in.data() + at, &number, sizeof(number));
}

constexpr std::size_t sections_at = 96, contents_at = 64, file_bytes = 96 + 2 * 64;

// An ELF file with two sections: nothing, and 32 bytes of code.
std::string cubin(unsigned architecture = 90) {
    std::string made(file_bytes, '\0');
    std::memcpy(made.data(),
                "\x7f"
                "ELF\x02\x01\x01\x41\x08",
                9);
    put<std::uint16_t>(made, 18, 190);
    put<std::uint64_t>(made, 40, sections_at);
    put<std::uint32_t>(made, 48, architecture << 8 | 0x06000004);
    put<std::uint16_t>(made, 54, 56);
    put<std::uint16_t>(made, 58, 64);
    put<std::uint16_t>(made, 60, 2);
    put<std::uint32_t>(made, sections_at + 64 + 4, 1);
    put<std::uint64_t>(made, sections_at + 64 + 24, contents_at);
    put<std::uint64_t>(made, sections_at + 64 + 32, 32);
    return made;
}

// Two entries of 24 and 8 bytes after headers of 16.
std::string fatbin() {
    std::string made(16 + 16 + 24 + 16 + 8, '\0');
    put<std::uint32_t>(made, 0, 0xba55ed50);
    put<std::uint16_t>(made, 4, 1);
    put<std::uint16_t>(made, 6, 16);
    put<std::uint64_t>(made, 8, made.size() - 16);
    put<std::uint32_t>(made, 20, 16);
    put<std::uint64_t>(made, 24, 24);
    put<std::uint32_t>(made, 60, 16);
    put<std::uint64_t>(made, 64, 8);
    return made;
}

constexpr std::string_view ptx = ".version 7.0\n.target sm_75\n.address_size 64\n";

module_image read(std::string_view text) { return read_image(bytes_of(text), {"load_module"}); }
void expect_bad(std::string_view text, std::initializer_list<std::string> words) {
    expect_refused(errc::bad_file, words, [&] { static_cast<void>(read(text)); });
}

}  // namespace

TEST(module_images, ptx_is_text_and_gets_a_zero_at_its_end) {
    const module_image image = read(ptx);
    EXPECT_EQ(image.kind, image_kind::ptx);
    ASSERT_EQ(image.bytes.size(), ptx.size() + 1);
    EXPECT_EQ(image.bytes.back(), std::byte{0});
    EXPECT_EQ(std::memcmp(image.bytes.data(), ptx.data(), ptx.size()), 0);
}

TEST(module_images, a_cubin_says_its_architecture) {
    EXPECT_EQ(read(cubin()).kind, image_kind::cubin);
    EXPECT_EQ(read(cubin()).compute_capability, 90);
    EXPECT_EQ(read(cubin(120)).compute_capability, 120);
    std::string older = cubin();
    older[8] = 7;
    put<std::uint32_t>(older, 48, 0x005a055a);
    EXPECT_EQ(read(older).compute_capability, 90);
    older[8] = 33;
    EXPECT_EQ(read(older).compute_capability, 0);
}

TEST(module_images, a_fatbin_is_one_by_its_first_bytes) { EXPECT_EQ(read(fatbin()).kind, image_kind::fatbin); }

TEST(module_images, nothing_is_no_module) { expect_bad("", {"load_module", "empty", "PTX", "cubin", "fatbin"}); }

TEST(module_images, garbage_is_no_module) {
    expect_bad("garbage", {"begins with the bytes 67 61 72 62 61 67 65", "accepted"});
    expect_bad(std::string(1000, '\0'), {"begins with the bytes 00 00"});
    expect_bad("\x01", {"begins with the bytes 01"});
    std::string noise;
    std::uint32_t state = 1;
    for (int i = 0; i < 4096; ++i) noise += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    for (std::size_t length = 1; length < noise.size(); length += 7)
        expect_bad(noise.substr(0, length), {"begins with"});
}

TEST(module_images, a_program_of_the_host_is_no_module) {
    std::string program = cubin();
    put<std::uint16_t>(program, 18, 62);
    expect_bad(program, {"another machine", "62"});
    program = cubin();
    program[4] = 1;
    expect_bad(program, {"64 bits"});
}

TEST(module_images, a_cubin_that_is_cut_anywhere_is_refused) {
    const std::string whole = cubin();
    for (std::size_t length = 4; length < whole.size(); ++length)
        expect_bad(std::string_view(whole).substr(0, length), {"cut"});
}

TEST(module_images, a_cubin_whose_header_lies_is_refused) {
    constexpr std::uint64_t far = ~std::uint64_t{0} - 10;
    for (const std::size_t at : {std::size_t{40}, sections_at + 64 + 24, sections_at + 64 + 32}) {
        std::string damaged = cubin();
        put<std::uint64_t>(damaged, at, far);
        expect_bad(damaged, {"cut"});
    }
    std::string damaged = cubin();
    put<std::uint16_t>(damaged, 60, 0);
    expect_bad(damaged, {"damaged"});
    damaged = cubin();
    put<std::uint16_t>(damaged, 62, 2);  // the names of the sections are in a section that does not exist
    expect_bad(damaged, {"damaged"});
    damaged = cubin();
    put<std::uint16_t>(damaged, 56, 100);
    expect_bad(damaged, {"cut", "segments"});
}

TEST(module_images, a_fatbin_that_is_cut_anywhere_is_refused) {
    const std::string whole = fatbin();
    for (std::size_t length = 4; length < whole.size(); ++length)
        expect_bad(std::string_view(whole).substr(0, length), {"cut"});
}

TEST(module_images, a_fatbin_whose_entries_lie_is_refused) {
    for (const std::size_t at : {std::size_t{24}, std::size_t{64}}) {
        for (const std::uint64_t size : {std::uint64_t{100}, ~std::uint64_t{0}}) {
            std::string damaged = fatbin();
            put<std::uint64_t>(damaged, at, size);
            expect_bad(damaged, {"damaged"});
        }
    }
    std::string damaged = fatbin();
    put<std::uint32_t>(damaged, 20, 0);  // an entry without a header: the next would be the same
    expect_bad(damaged, {"damaged"});
}

TEST(module_images, ptx_with_a_zero_byte_is_refused) {
    std::string text(ptx);
    text[20] = '\0';
    expect_bad(text + std::string(ptx), {"zero byte", "20"});
    text = std::string(ptx) + std::string(2, '\0');  // a text that was passed with its end
    EXPECT_EQ(read(text).kind, image_kind::ptx);
}

}  // namespace sluice::cuda::module_image_tests
