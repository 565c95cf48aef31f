// SPDX-License-Identifier: Apache-2.0
#include "serve/unpack_body.hpp"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <new>
#include <utility>

#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t first_room = 16 << 10;
constexpr int gzip_format = 16 + MAX_WBITS, zlib_format = MAX_WBITS, raw_format = -MAX_WBITS;

// "deflate" is zlib's format; some clients send its contents alone.
int format_of(std::string_view body, content_coding coding) noexcept {
    if (coding == content_coding::gzip) return gzip_format;
    if (body.size() < 2) return zlib_format;
    const unsigned first = static_cast<unsigned char>(body[0]), second = static_cast<unsigned char>(body[1]);
    return (first & 15U) == 8 && (first * 256 + second) % 31 == 0 ? zlib_format : raw_format;
}

[[noreturn]] void refuse_damaged(const char* called) {
    throw refusal(
        refusal_kind::bad_request,
        "the " + std::string(called) + " is not compressed as it says: it is damaged, or ends before its last byte");
}

}  // namespace

content_coding content_coding_of(std::string_view value) noexcept {
    const auto is = [value](std::string_view word) {
        return std::ranges::equal(value, word, [](unsigned char a, char b) { return std::tolower(a) == b; });
    };
    if (is("identity")) return content_coding::identity;
    if (is("gzip") || is("x-gzip")) return content_coding::gzip;
    return is("deflate") ? content_coding::deflate : content_coding::other;
}

std::string known_content_codings() { return "gzip and deflate"; }
bool can_unpack(content_coding coding) noexcept { return coding != content_coding::other; }

struct body_unpacker::implementation {
    explicit implementation(int format) {
        if (::inflateInit2(&stream, format) != Z_OK) throw std::bad_alloc();
    }
    implementation(const implementation&) = delete;
    implementation& operator=(const implementation&) = delete;
    ~implementation() { ::inflateEnd(&stream); }

    z_stream stream{};
};

body_unpacker::body_unpacker(std::string_view body, content_coding coding, std::size_t most,
                             std::function<void(std::size_t)> charge, const char* called)
    : most_(most),
      charge_(std::move(charge)),
      called_(called),
      rest_(body),
      zlib_(std::make_unique<implementation>(format_of(body, coding))) {}
body_unpacker::~body_unpacker() = default;

// For one byte more than is accepted: it shows that the body is too long.
void body_unpacker::make_room() {
    if (charged_ != 0 && made_.size() < made_.capacity()) return;  // an empty string has room that is not charged
    const std::size_t wanted = std::min(std::max(first_room, 2 * made_.capacity()), most_ + 1);
    charge_(wanted - std::exchange(charged_, wanted));
    made_.reserve(wanted);
}

bool body_unpacker::step() {
    make_room();
    z_stream& stream = zlib_->stream;
    const std::size_t before = made_.size();
    const std::size_t given = std::min(rest_.size(), piece_bytes);
    const std::size_t room = std::min({made_.capacity() - before, piece_bytes, most_ + 1 - before});
    made_.resize(before + room);
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(rest_.data()));
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef*>(made_.data() + before);
    stream.avail_out = static_cast<uInt>(room);
    const int state = ::inflate(&stream, Z_NO_FLUSH);
    made_.resize(before + room - stream.avail_out);
    rest_.remove_prefix(given - stream.avail_in);
    step_bytes_ = given - stream.avail_in + room - stream.avail_out;
    if (state == Z_MEM_ERROR) throw std::bad_alloc();
    if (made_.size() > most_) {
        throw refusal(refusal_kind::too_large, "the " + std::string(called_) + " would become longer than the " +
                                                   std::to_string(most_) + " bytes that are accepted");
    }
    const bool is_whole = state == Z_STREAM_END;
    const bool has_ended = rest_.empty() && stream.avail_out != 0;
    if ((state != Z_OK && !is_whole) || (is_whole ? !rest_.empty() : has_ended)) refuse_damaged(called_);
    return is_whole;
}

}  // namespace sluice::serve
