// SPDX-License-Identifier: Apache-2.0
#include "runtime/streaming_copy.hpp"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sluice::detail {

#if defined(__SSE2__)
namespace {

constexpr std::size_t line_bytes = 64;
constexpr std::size_t smallest_streamed_bytes = std::size_t{96} << 10;

}  // namespace

void streaming_copy(void* to, const void* from, std::size_t bytes) noexcept {
    if (bytes < smallest_streamed_bytes) {
        if (bytes != 0) std::memcpy(to, from, bytes);
        return;
    }
    auto* destination = static_cast<char*>(to);
    const auto* source = static_cast<const char*>(from);
    const std::size_t head = (line_bytes - reinterpret_cast<std::uintptr_t>(destination) % line_bytes) % line_bytes;
    std::memcpy(destination, source, head);
    destination += head;
    source += head;
    bytes -= head;
    for (; bytes >= line_bytes; bytes -= line_bytes, destination += line_bytes, source += line_bytes) {
        const auto* const read = reinterpret_cast<const __m128i*>(source);
        auto* const write = reinterpret_cast<__m128i*>(destination);
        const __m128i first = _mm_loadu_si128(read), second = _mm_loadu_si128(read + 1);
        const __m128i third = _mm_loadu_si128(read + 2), fourth = _mm_loadu_si128(read + 3);
        _mm_stream_si128(write, first);
        _mm_stream_si128(write + 1, second);
        _mm_stream_si128(write + 2, third);
        _mm_stream_si128(write + 3, fourth);
    }
    std::memcpy(destination, source, bytes);
    _mm_sfence();  // such writes are in no order with later ones otherwise
}
#else
void streaming_copy(void* to, const void* from, std::size_t bytes) noexcept {
    if (bytes != 0) std::memcpy(to, from, bytes);
}
#endif

}  // namespace sluice::detail
