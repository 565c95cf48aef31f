// SPDX-License-Identifier: Apache-2.0
// libjpeg reports an error by a function that must not return. Ours jumps; so in the functions between the call of
// setjmp and libjpeg nothing has a destructor: all that is made is in a jpeg_work, outside of them.
#include <cstdio>  // jpeglib.h needs it

#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <string>
#include <string_view>
#include <vector>

#include "image_decoders.hpp"

namespace sluice::io {
namespace {

// A progressive picture comes in scans, each over all of it; encoders write some ten. A small file can have any number
// of them, and take hours.
constexpr int most_scans = 100;

struct jpeg_work {
    jpeg_decompress_struct jpeg{};
    jpeg_error_mgr errors{};
    jpeg_progress_mgr progress{};
    std::jmp_buf place{};
    std::array<char, JMSG_LENGTH_MAX> message{};
    image made;
    std::vector<JSAMPLE> row;

    jpeg_work() = default;
    jpeg_work(const jpeg_work&) = delete;  // libjpeg holds its address
    jpeg_work& operator=(const jpeg_work&) = delete;
    ~jpeg_work() { jpeg_destroy_decompress(&jpeg); }
};

jpeg_work& work_of(j_common_ptr jpeg) { return *static_cast<jpeg_work*>(jpeg->client_data); }

[[noreturn]] void jump_out_of_libjpeg(j_common_ptr jpeg) {
    jpeg_work& work = work_of(jpeg);
    work.errors.format_message(jpeg, work.message.data());
    std::longjmp(work.place, 1);
}

// Warnings are of damage that libjpeg has covered with invented pixels.
void take_libjpeg_message(j_common_ptr jpeg, int level) {
    if (level < 0) jump_out_of_libjpeg(jpeg);
}

void check_scans(j_common_ptr jpeg) {
    jpeg_work& work = work_of(jpeg);
    if (work.jpeg.input_scan_number <= most_scans) return;
    const std::string_view why = "has too many scans";
    std::ranges::copy(why, work.message.begin());
    std::longjmp(work.place, 1);
}

// False: refused, with a message. So the functions below.
bool read_jpeg_header(jpeg_work& work, std::span<const std::byte> file) {
    work.jpeg.err = jpeg_std_error(&work.errors);
    work.errors.error_exit = jump_out_of_libjpeg;
    work.errors.emit_message = take_libjpeg_message;
    work.jpeg.client_data = &work;
    if (setjmp(work.place) != 0) return false;
    jpeg_create_decompress(&work.jpeg);
    work.progress.progress_monitor = check_scans;
    work.jpeg.progress = &work.progress;
    jpeg_mem_src(&work.jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    static_cast<void>(jpeg_read_header(&work.jpeg, TRUE));
    return true;
}

bool read_jpeg_rows(jpeg_work& work) {
    if (setjmp(work.place) != 0) return false;
    static_cast<void>(jpeg_start_decompress(&work.jpeg));
    std::uint16_t* to = work.made.numbers.data();
    while (work.jpeg.output_scanline < work.jpeg.output_height) {
        JSAMPROW row = work.row.data();
        static_cast<void>(jpeg_read_scanlines(&work.jpeg, &row, 1));
        to = std::copy(work.row.data(), work.row.data() + work.row.size(), to);
    }
    static_cast<void>(jpeg_finish_decompress(&work.jpeg));
    return true;
}

}  // namespace

bool jpeg_supported() noexcept { return true; }

image decode_jpeg(std::span<const std::byte> file, const std::filesystem::path& path, image_limits limits) {
    jpeg_work work;
    const auto refuse = [&](const std::string& why) { throw file_error(path, file_error::no_offset, "JPEG", why); };
    const auto refuse_damage = [&] { refuse(std::string("is damaged or cut off: ") + work.message.data()); };
    if (!read_jpeg_header(work, file)) refuse_damage();
    const J_COLOR_SPACE stored = work.jpeg.jpeg_color_space;
    const bool is_grey = stored == JCS_GRAYSCALE;
    if (!is_grey && stored != JCS_YCbCr && stored != JCS_RGB)
        refuse("has colours for printers or of an unknown kind; supported are grey, YCbCr and RGB");
    work.jpeg.out_color_space = is_grey ? JCS_GRAYSCALE : JCS_RGB;
    const image_format format = is_grey ? image_format::grey : image_format::rgb;
    work.made = make_image(path, work.jpeg.image_width, work.jpeg.image_height, format, 255, limits);
    work.row.resize(work.made.width * channels_of(format));
    if (!read_jpeg_rows(work)) refuse_damage();
    return std::move(work.made);
}

}  // namespace sluice::io
