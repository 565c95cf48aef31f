// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/write_file.hpp"

#include <array>
#include <cstdint>
#include <ostream>
#include <span>
#include <streambuf>

namespace sluice::io {
namespace {

// A stream's text at the end of a file, in pieces of some size.
class file_buffer final : public std::streambuf {
public:
    explicit file_buffer(atomic_file& to) : to_(to) { setp(gathered_.data(), gathered_.data() + gathered_.size()); }

private:
    int_type overflow(int_type single) override {
        sync();
        if (traits_type::eq_int_type(single, traits_type::eof())) return traits_type::not_eof(single);
        return sputc(traits_type::to_char_type(single));
    }
    int sync() override {
        const std::span<const char> piece(pbase(), static_cast<std::size_t>(pptr() - pbase()));
        to_.write_at(written_, std::as_bytes(piece));
        written_ += piece.size();
        setp(gathered_.data(), gathered_.data() + gathered_.size());
        return 0;
    }

    atomic_file& to_;
    std::array<char, 64 << 10> gathered_;
    std::uint64_t written_ = 0;
};

}  // namespace

void write_file(atomic_file& to, const std::function<void(std::ostream& to)>& write) {
    file_buffer buffer(to);
    std::ostream stream(&buffer);
    stream.exceptions(std::ios::badbit);  // what the file throws passes through
    write(stream);
    stream.flush();
    to.commit();
}

void write_file(const std::filesystem::path& file, const std::function<void(std::ostream& to)>& write) {
    atomic_file to(file);
    write_file(to, write);
}

}  // namespace sluice::io
