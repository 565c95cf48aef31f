#include "trace_files.hpp"

#include <ostream>
#include <span>
#include <streambuf>

namespace sluice::app {
namespace {

// A stream's text at the end of a file. The writers of traces hand over large pieces, so nothing is gathered here.
class file_buffer final : public std::streambuf {
public:
    explicit file_buffer(nn::atomic_file& to) : to_(to) {}

private:
    std::streamsize xsputn(const char* text, std::streamsize count) override {
        const std::span<const char> piece(text, static_cast<std::size_t>(count));
        to_.write_at(written_, std::as_bytes(piece));
        written_ += piece.size();
        return count;
    }
    int_type overflow(int_type single) override {
        if (traits_type::eq_int_type(single, traits_type::eof())) return traits_type::not_eof(single);
        const char text = traits_type::to_char_type(single);
        xsputn(&text, 1);
        return single;
    }

    nn::atomic_file& to_;
    std::uint64_t written_ = 0;
};

template <typename Write>
void write_whole(nn::atomic_file& to, Write write) {
    file_buffer buffer(to);
    std::ostream stream(&buffer);
    stream.exceptions(std::ios::badbit);  // what the file throws passes through
    write(stream);
    to.commit();
}

}  // namespace

trace_files::trace_files(const std::optional<std::filesystem::path>& chrome,
                         const std::optional<std::filesystem::path>& timeline) {
    if (chrome) chrome_.emplace(*chrome);
    if (timeline) timeline_.emplace(*timeline);
}

void trace_files::write(const trace& made, const timeline_options& how) {
    if (chrome_) write_whole(*chrome_, [&](std::ostream& to) { write_chrome_trace(made, to); });
    if (timeline_) write_whole(*timeline_, [&](std::ostream& to) { write_timeline(made, to, how); });
}

}  // namespace sluice::app
