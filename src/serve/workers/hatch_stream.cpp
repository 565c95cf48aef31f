// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/hatch_stream.hpp"

#include <algorithm>
#include <cstring>

#include "serve/workers/packed.hpp"

namespace sluice::serve {

void hatch_writer::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        if (used_ == to_.area().size()) {
            to_.give(used_, true);
            const hatch_piece answer = to_.take(wait_.spin, wait_.look);
            if (answer.bytes != 0 || answer.more) throw worker_damage("the other side has answered half a message");
            used_ = 0;
        }
        const std::size_t part = std::min(bytes.size(), to_.area().size() - used_);
        std::memcpy(to_.area().data() + used_, bytes.data(), part);
        used_ += part;
        bytes = bytes.subspan(part);
    }
}

void hatch_reader::next() {
    if (!piece_.more) throw worker_damage("a message is shorter than it says");
    from_.give(0, false);
    piece_ = from_.take(wait_.spin, wait_.look);
    used_ = 0;
    if (piece_.bytes == 0)
        throw worker_damage("the other side has given an empty piece");  // it could give them for ever
}

void hatch_reader::read(std::span<std::byte> to) {
    while (!to.empty()) {
        if (used_ == piece_.bytes) {
            next();
            continue;
        }
        const std::size_t part = std::min(to.size(), piece_.bytes - used_);
        std::memcpy(to.data(), from_.area().data() + used_, part);
        used_ += part;
        to = to.subspan(part);
    }
}

void hatch_reader::require_end() const {
    if (used_ != piece_.bytes || piece_.more) throw worker_damage("a message is longer than it says");
}

void hatch_reader::skip(std::size_t most_pieces) {
    for (; piece_.more; --most_pieces) {
        if (most_pieces == 0) throw worker_damage("a message does not end");
        next();
    }
    used_ = piece_.bytes;
}

}  // namespace sluice::serve
