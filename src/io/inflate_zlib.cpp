// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>

#include "inflate.hpp"
#include "sluice/io/npz.hpp"

namespace sluice::io {
namespace {

constexpr std::size_t largest_step = std::numeric_limits<uInt>::max();  // zlib counts in 32 bits

struct end_inflate {
    void operator()(z_stream* stream) const noexcept { ::inflateEnd(stream); }
};

}  // namespace

bool zlib_supported() noexcept { return true; }

bool inflate_all(std::span<const std::byte> source, std::span<std::byte> target) {
    z_stream stream{};
    if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
    const std::unique_ptr<z_stream, end_inflate> ended(&stream);
    int state = Z_OK;
    std::byte nothing{};  // zlib refuses a null pointer, also for no bytes
    while (state == Z_OK) {
        const std::size_t in = std::min(source.size(), largest_step), out = std::min(target.size(), largest_step);
        stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in == 0 ? &nothing : source.data()));
        stream.next_out = reinterpret_cast<Bytef*>(out == 0 ? &nothing : target.data());
        stream.avail_in = static_cast<uInt>(in);
        stream.avail_out = static_cast<uInt>(out);
        state = ::inflate(&stream, Z_NO_FLUSH);
        source = source.subspan(in - stream.avail_in);
        target = target.subspan(out - stream.avail_out);
    }
    if (state == Z_MEM_ERROR) throw std::bad_alloc();
    return state == Z_STREAM_END && source.empty() && target.empty();
}

std::uint32_t crc32_of(std::span<const std::byte> bytes) {
    return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace sluice::io
