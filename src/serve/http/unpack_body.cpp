// SPDX-License-Identifier: Apache-2.0
#include "serve/http/unpack_body.hpp"

#include <zlib.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <limits>
#include <memory>
#include <new>

#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t first_step = 16 << 10;
constexpr std::size_t longest_step = 1 << 20;
constexpr int gzip_format = 16 + MAX_WBITS, zlib_format = MAX_WBITS, raw_format = -MAX_WBITS;

struct end_inflate {
    void operator()(z_stream* stream) const noexcept { ::inflateEnd(stream); }
};

// "deflate" is zlib's format; some clients send its contents alone.
int format_of(std::string_view body, content_coding coding) noexcept {
    if (coding == content_coding::gzip) return gzip_format;
    if (body.size() < 2) return zlib_format;
    const unsigned first = static_cast<unsigned char>(body[0]), second = static_cast<unsigned char>(body[1]);
    return (first & 15U) == 8 && (first * 256 + second) % 31 == 0 ? zlib_format : raw_format;
}

[[noreturn]] void refuse_damaged() {
    throw refusal(refusal_kind::bad_request,
                  "the body is not what its Content-Encoding says: it is damaged, or ends "
                  "before its last byte");
}

}  // namespace

content_coding content_coding_of(std::string_view value) noexcept {
    const boost::beast::string_view its(value.data(), value.size());
    using boost::beast::iequals;
    if (iequals(its, "identity")) return content_coding::identity;
    if (iequals(its, "gzip") || iequals(its, "x-gzip")) return content_coding::gzip;
    return iequals(its, "deflate") ? content_coding::deflate : content_coding::other;
}

std::string known_content_codings() { return "gzip and deflate"; }
bool can_unpack(content_coding coding) noexcept { return coding != content_coding::other; }

std::string unpacked(std::string_view body, content_coding coding, std::size_t most,
                     const std::function<void(std::size_t)>& charge) {
    if (body.size() > std::numeric_limits<uInt>::max()) refuse_damaged();  // zlib counts in 32 bits
    z_stream stream{};
    if (::inflateInit2(&stream, format_of(body, coding)) != Z_OK) throw std::bad_alloc();
    const std::unique_ptr<z_stream, end_inflate> ended(&stream);
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(body.data()));
    stream.avail_in = static_cast<uInt>(body.size());
    std::string made;
    for (std::size_t step = first_step;; step = std::min(2 * step, longest_step)) {
        const std::size_t before = made.size(), more = std::min(step, most - before) + 1;  // one: that it is too long
        charge(more);
        made.resize(before + more);
        stream.next_out = reinterpret_cast<Bytef*>(made.data() + before);
        stream.avail_out = static_cast<uInt>(more);
        const int state = ::inflate(&stream, Z_NO_FLUSH);
        made.resize(before + more - stream.avail_out);
        if (state == Z_MEM_ERROR) throw std::bad_alloc();
        if (made.size() > most) {
            throw refusal(refusal_kind::too_large,
                          "the body would become longer than the " + std::to_string(most) + " bytes that are accepted");
        }
        if (state == Z_STREAM_END) break;
        if (state != Z_OK || (stream.avail_in == 0 && stream.avail_out != 0)) refuse_damaged();
    }
    if (stream.avail_in != 0) refuse_damaged();
    return made;
}

}  // namespace sluice::serve
