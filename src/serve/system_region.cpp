// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "serve/region_checks.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/shared_region.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t longest_key = 255;

void require_key(const std::string& key) {
    const std::string_view name = std::string_view(key).substr(key.starts_with('/') ? 1 : 0);
    const bool is_right = !name.empty() && name != "." && name != ".." && name.size() <= longest_key &&
                          name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
    if (!is_right) {
        refuse_region("the key " + in_quotes(key) +
                      " is no name of shared memory; accepted is a name as shm_open takes it, without '/' but at its "
                      "beginning");
    }
}

std::string system_text(int code) { return std::generic_category().message(code); }

// The length of the object; 0 when it cannot be said.
std::uint64_t length_of(int object) noexcept {
    struct stat state{};
    if (::fstat(object, &state) != 0 || state.st_size < 0) return 0;
    return static_cast<std::uint64_t>(state.st_size);
}

}  // namespace

system_region::system_region(std::string name, std::string key, std::uint64_t offset, std::uint64_t bytes)
    : shared_region(region_kind::system, std::move(name), bytes), key_(std::move(key)), offset_(offset) {
    require_key(key_);
    object_ = ::shm_open(key_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK, 0);
    if (object_ == -1 && errno == EACCES) {
        is_writable_ = false;
        object_ = ::shm_open(key_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    }
    if (object_ == -1) {
        refuse_region("the shared memory " + in_quotes(key_) + " cannot be opened: " + system_text(errno));
    }
    struct stat state{};
    const bool is_memory = ::fstat(object_, &state) == 0 && S_ISREG(state.st_mode);
    const std::uint64_t length = is_memory ? length_of(object_) : 0;
    if (is_memory && is_inside(offset_, bytes, length)) return;
    ::close(object_);
    refuse_region(is_memory ? region_words(this->name()) + " needs " + std::to_string(bytes) + " bytes from " +
                                  std::to_string(offset_) + " on; the shared memory " + in_quotes(key_) + " has " +
                                  std::to_string(length)
                            : in_quotes(key_) + " is no shared memory");
}

system_region::~system_region() { ::close(object_); }

void system_region::read_part(std::uint64_t offset, std::span<std::byte> to) const {
    std::size_t done = 0;
    while (done < to.size()) {
        const auto at = static_cast<off_t>(offset_ + offset + done);
        const ssize_t got = ::pread(object_, to.data() + done, to.size() - done, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) refuse_region(region_words(name()) + " cannot be read: " + system_text(errno));
        if (got == 0) refuse_region(region_words(name()) + " has become smaller than it was when it was registered");
        done += static_cast<std::size_t>(got);
    }
}

void system_region::write_part(std::uint64_t offset, std::span<const std::byte> from) const {
    if (!is_writable_) refuse_region(region_words(name()) + " may not be written by the server");
    // A write past the end would make the object larger.
    if (!is_inside(offset_ + offset, from.size(), length_of(object_)))
        refuse_region(region_words(name()) + " has become smaller than it was when it was registered");
    std::size_t done = 0;
    while (done < from.size()) {
        const auto at = static_cast<off_t>(offset_ + offset + done);
        const ssize_t put = ::pwrite(object_, from.data() + done, from.size() - done, at);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) refuse_region(region_words(name()) + " cannot be written: " + system_text(errno));
        done += static_cast<std::size_t>(put);
    }
}

}  // namespace sluice::serve
