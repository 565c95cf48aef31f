// SPDX-License-Identifier: Apache-2.0
#include "check/inject/trace_writer.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <utility>
#include <vector>

#include "check/inject/demangled.hpp"

namespace sluice::check {
namespace {

constexpr std::size_t kept_bytes = std::size_t{64} << 10;
constexpr int deepest = 32;
constexpr std::size_t longest_text = 2048;

// "0x11d4"
std::string hexadecimal(std::uintptr_t value) {
    std::array<char, 2 + 2 * sizeof(value)> digits{'0', 'x'};
    const auto end = std::to_chars(digits.data() + 2, digits.data() + digits.size(), value, 16).ptr;
    return std::string(digits.data(), end);
}

}  // namespace

bool trace_writer::open(const std::string& file) {
    file_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    owner_ = ::getpid();
    return file_ >= 0;
}

bool trace_writer::is_owner() const noexcept { return ::getpid() == owner_; }

void trace_writer::flush() noexcept {
    if (!is_owner()) return buffer_.clear();
    const char* at = buffer_.data();
    for (std::size_t left = buffer_.size(); left != 0;) {
        const ssize_t written = ::write(file_, at, left);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {  // the disk is full: the trace ends here, and its last line is cut
            ::close(std::exchange(file_, -1));
            break;
        }
        at += written;
        left -= static_cast<std::size_t>(written);
    }
    buffer_.clear();
}

void trace_writer::separate() {
    if (line_.back() != '{' && line_.back() != '[') line_ += ',';
}

void trace_writer::append(std::uint64_t value) {
    std::array<char, 20> digits;
    line_.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

void trace_writer::begin(const char* op) {
    line_.assign("{");
    text("op", op);
}

void trace_writer::number(const char* key, std::uint64_t value) {
    separate();
    line_.append("\"").append(key).append("\":");
    append(value);
}

void trace_writer::yes(const char* key) {
    separate();
    line_.append("\"").append(key).append("\":true");
}

// Bytes that JSON does not take become '?': names of functions are ASCII,
// mostly.
void trace_writer::text(const char* key, std::string_view value) {
    separate();
    if (*key != '\0') line_.append("\"").append(key).append("\":");
    line_ += '"';
    for (const char each : value.substr(0, longest_text)) {
        if (each == '"' || each == '\\') line_ += '\\';
        line_ += each >= ' ' && each < '\x7f' ? each : '?';
    }
    line_ += '"';
}

void trace_writer::begin_list(const char* key) {
    separate();
    line_.append("\"").append(key).append("\":[");
}

void trace_writer::begin_object() {
    separate();
    line_ += '{';
}

void trace_writer::element(std::uint64_t value) {
    separate();
    append(value);
}

void trace_writer::end() {
    line_ += "}\n";
    buffer_ += line_;
    if (buffer_.size() >= kept_bytes) flush();
}

// "scale(float*)+0x12 at program+0x11d4"
std::string trace_writer::frame_of(void* address, bool& is_inside) {
    Dl_info found{};
    if (::dladdr(address, &found) == 0 || found.dli_fname == nullptr) return hexadecimal(number_of(address));
    const std::string_view path = found.dli_fname;
    const std::string_view file = path.substr(path.rfind('/') + 1);
    for (const char* const each : {"libsluice_check_inject", "libcupti", "libcuda.so", "libcudart", "libcudadebugger"})
        is_inside |= file.starts_with(each);
    std::string text;
    if (found.dli_sname != nullptr) {
        text = demangled(found.dli_sname) + "+" + hexadecimal(number_of(address) - number_of(found.dli_saddr)) + " ";
    }
    return text + "at " + std::string(path) + "+" + hexadecimal(number_of(address) - number_of(found.dli_fbase));
}

std::uint64_t trace_writer::stack() {
    std::array<void*, deepest> addresses;
    const int depth = ::backtrace(addresses.data(), deepest);
    std::uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < depth; ++i) hash = (hash ^ number_of(addresses[static_cast<std::size_t>(i)])) * 0x100000001b3;
    const auto [at, is_new] = stacks_.try_emplace(hash, stacks_.size() + 1);
    if (!is_new) return at->second;
    std::vector<std::string> lines;
    for (int i = 0; i < depth; ++i) {
        void* const address = addresses[static_cast<std::size_t>(i)];
        auto known = frames_.find(address);
        if (known == frames_.end()) {
            bool is_inside = false;
            // The address is that after the call.
            std::string text = frame_of(static_cast<char*>(address) - 1, is_inside);
            known = frames_.emplace(address, frame{std::move(text), is_inside}).first;
        }
        if (!lines.empty() || !known->second.is_inside) lines.push_back(known->second.text);
    }
    begin("frames");
    number("stack", at->second);
    begin_list("frames");
    for (const std::string& each : lines) text("", each);
    end_list();
    end();
    return at->second;
}

}  // namespace sluice::check
