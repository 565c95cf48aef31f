// SPDX-License-Identifier: Apache-2.0
// libpng reports an error by jumping over the functions that called it. So in the functions between the call of setjmp
// and libpng nothing has a destructor: all that is made is in a png_work, outside of them.
#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "image_decoders.hpp"

namespace sluice::io {
namespace {

struct png_work {
    std::span<const std::byte> left;  // of the file
    png_structp png = nullptr;
    png_infop info = nullptr;
    std::array<char, 200> message{};
    image made;
    std::vector<png_bytep> rows;

    png_work() = default;
    png_work(const png_work&) = delete;  // libpng holds its address
    png_work& operator=(const png_work&) = delete;
    ~png_work() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void jump_out_of_libpng(png_structp png, png_const_charp why) {
    auto& work = *static_cast<png_work*>(png_get_error_ptr(png));
    std::strncpy(work.message.data(), why, work.message.size() - 1);
    png_longjmp(png, 1);
}

// Of what does not change the picture, such as chunks in another order.
void ignore_warning(png_structp, png_const_charp) {}

void take_bytes(png_structp png, png_bytep to, std::size_t count) {
    auto& work = *static_cast<png_work*>(png_get_io_ptr(png));
    if (count > work.left.size()) png_error(png, "the file ends inside the picture");
    std::memcpy(to, work.left.data(), count);
    work.left = work.left.subspan(count);
}

void start_png(png_work& work) {
    work.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &work, jump_out_of_libpng, ignore_warning);
    if (work.png == nullptr) throw std::bad_alloc();
    work.info = png_create_info_struct(work.png);
    if (work.info == nullptr) throw std::bad_alloc();
    png_set_read_fn(work.png, &work, take_bytes);
    png_set_user_limits(work.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ours are checked before memory is requested
    // Texts, profiles and the like are passed over: libpng would request memory for as many bytes as they claim to
    // have.
    png_set_keep_unknown_chunks(work.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    png_set_crc_action(work.png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);  // no fuzzer finds them
#endif
}

// False: refused, with a message. So the functions below.
bool read_png_header(png_work& work) {
    if (setjmp(png_jmpbuf(work.png)) != 0) return false;
    png_read_info(work.png, work.info);
    return true;
}

// Requests memory for a row.
bool choose_format(png_work& work) {
    if (setjmp(png_jmpbuf(work.png)) != 0) return false;
    png_set_expand(work.png);  // palettes to colours, few bits to 8, a transparent colour to alpha
    png_set_swap(work.png);    // 16 bits are stored with the high byte first
    static_cast<void>(png_set_interlace_handling(work.png));
    png_read_update_info(work.png, work.info);
    return true;
}

bool read_png_rows(png_work& work) {
    if (setjmp(png_jmpbuf(work.png)) != 0) return false;
    png_read_image(work.png, work.rows.data());
    png_read_end(work.png, nullptr);
    return true;
}

// Numbers of 8 bits are read to the second half of the memory, and widened from its beginning: no number is overwritten
// before it is widened.
void widen(std::vector<std::uint16_t>& numbers) {
    const std::size_t count = numbers.size();
    const auto* const narrow = reinterpret_cast<const unsigned char*>(numbers.data()) + count;
    for (std::size_t i = 0; i < count; ++i) {
        const unsigned char number = narrow[i];
        numbers[i] = number;
    }
}

}  // namespace

bool png_supported() noexcept { return true; }

image decode_png(std::span<const std::byte> file, const std::filesystem::path& path, image_limits limits) {
    png_work work;
    const auto refuse = [&] {
        throw file_error(path, file.size() - work.left.size(), "PNG",
                         std::string("is damaged or cut off: ") + work.message.data());
    };
    work.left = file;
    start_png(work);
    if (!read_png_header(work)) refuse();
    require_image_size(path, png_get_image_width(work.png, work.info), png_get_image_height(work.png, work.info),
                       limits);
    if (!choose_format(work)) refuse();
    const auto channels = static_cast<image_format>(png_get_channels(work.png, work.info));
    const bool is_wide = png_get_bit_depth(work.png, work.info) == 16;
    work.made = make_image(path, png_get_image_width(work.png, work.info), png_get_image_height(work.png, work.info),
                           channels, is_wide ? 65'535 : 255, limits);
    const std::size_t row_bytes = work.made.width * channels_of(channels) * (is_wide ? 2 : 1);
    if (png_get_rowbytes(work.png, work.info) != row_bytes)
        throw file_error(path, file_error::no_offset, "PNG", "has rows of an unknown kind");
    auto* to = reinterpret_cast<png_bytep>(work.made.numbers.data()) + (is_wide ? 0 : work.made.numbers.size());
    work.rows.resize(work.made.height);
    for (png_bytep& row : work.rows) {
        row = to;
        to += row_bytes;
    }
    if (!read_png_rows(work)) refuse();
    if (!is_wide) widen(work.made.numbers);
    return std::move(work.made);
}

}  // namespace sluice::io
