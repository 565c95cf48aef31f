// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/shared_regions.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "sluice/base/printable.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t longest_key = 255;
constexpr std::size_t longest_name = 128;

[[noreturn]] void refuse(const std::string& why) { throw refusal(refusal_kind::bad_request, why); }

std::string region_words(std::string_view name) { return "the shared memory region " + in_quotes(name); }

// As those of models, so that paths need no decoding.
bool is_region_name(std::string_view name) noexcept {
    const auto is_right = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
               c == '-';
    };
    return !name.empty() && name.size() <= longest_name && name.front() != '.' && std::ranges::all_of(name, is_right);
}

void require_key(const std::string& key) {
    const std::string_view name = std::string_view(key).substr(key.starts_with('/') ? 1 : 0);
    const bool is_right = !name.empty() && name != "." && name != ".." && name.size() <= longest_key &&
                          name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
    if (!is_right) {
        refuse("the key " + in_quotes(key) +
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

bool is_inside(std::uint64_t offset, std::uint64_t bytes, std::uint64_t length) noexcept {
    return offset <= length && bytes <= length - offset;
}

}  // namespace

shared_region::shared_region(std::string name, std::string key, std::uint64_t offset, std::uint64_t bytes)
    : name_(std::move(name)), key_(std::move(key)), offset_(offset), bytes_(bytes) {
    if (!is_region_name(name_))
        refuse(in_quotes(name_) +
               " is no name of a region; accepted are at most 128 letters, digits, '.', '_' and '-', the first no '.'");
    require_key(key_);
    if (bytes == 0) refuse(region_words(name_) + " has no bytes; 'byte_size' must be at least 1");
    object_ = ::shm_open(key_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK, 0);
    if (object_ == -1 && errno == EACCES) {
        is_writable_ = false;
        object_ = ::shm_open(key_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    }
    if (object_ == -1) {
        refuse("the shared memory " + in_quotes(key_) + " cannot be opened: " + system_text(errno));
    }
    struct stat state{};
    const bool is_memory = ::fstat(object_, &state) == 0 && S_ISREG(state.st_mode);
    const std::uint64_t length = is_memory ? length_of(object_) : 0;
    if (is_memory && is_inside(offset_, bytes_, length)) return;
    ::close(object_);
    refuse(is_memory
               ? region_words(name_) + " needs " + std::to_string(bytes_) + " bytes from " + std::to_string(offset_) +
                     " on; the shared memory " + in_quotes(key_) + " has " + std::to_string(length)
               : in_quotes(key_) + " is no shared memory");
}

shared_region::~shared_region() { ::close(object_); }

void shared_region::require_part(std::uint64_t offset, std::uint64_t bytes) const {
    if (is_inside(offset, bytes, bytes_)) return;
    refuse(std::to_string(bytes) + " bytes from " + std::to_string(offset) + " on are not in " + region_words(name_) +
           ", which has " + std::to_string(bytes_));
}

void shared_region::read(std::uint64_t offset, std::span<std::byte> to) const {
    require_part(offset, to.size());
    std::size_t done = 0;
    while (done < to.size()) {
        const auto at = static_cast<off_t>(offset_ + offset + done);
        const ssize_t got = ::pread(object_, to.data() + done, to.size() - done, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) refuse(region_words(name_) + " cannot be read: " + system_text(errno));
        if (got == 0) refuse(region_words(name_) + " has become smaller than it was when it was registered");
        done += static_cast<std::size_t>(got);
    }
}

void shared_region::write(std::uint64_t offset, std::span<const std::byte> from) const {
    require_part(offset, from.size());
    if (!is_writable_) refuse(region_words(name_) + " may not be written by the server");
    // A write past the end would make the object larger.
    if (!is_inside(offset_ + offset, from.size(), length_of(object_)))
        refuse(region_words(name_) + " has become smaller than it was when it was registered");
    std::size_t done = 0;
    while (done < from.size()) {
        const auto at = static_cast<off_t>(offset_ + offset + done);
        const ssize_t put = ::pwrite(object_, from.data() + done, from.size() - done, at);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) refuse(region_words(name_) + " cannot be written: " + system_text(errno));
        done += static_cast<std::size_t>(put);
    }
}

void shared_regions::add(const std::string& name, const std::string& key, std::uint64_t offset, std::uint64_t bytes) {
    auto made = std::make_shared<const shared_region>(name, key, offset, bytes);
    const std::lock_guard lock(mutex_);
    if (regions_.contains(name)) refuse(region_words(name) + " is registered already; unregister it first");
    if (regions_.size() == most_regions)
        refuse("there are " + std::to_string(most_regions) +
               " shared memory regions, which is the most; unregister one");
    regions_.emplace(name, std::move(made));
}

void shared_regions::remove(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(name);
    if (found != regions_.end()) regions_.erase(found);
}

void shared_regions::remove_all() {
    const std::lock_guard lock(mutex_);
    regions_.clear();
}

std::shared_ptr<const shared_region> shared_regions::find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(name);
    if (found == regions_.end()) refuse(region_words(name) + " is not registered");
    return found->second;
}

std::vector<std::shared_ptr<const shared_region>> shared_regions::all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<const shared_region>> all;
    all.reserve(regions_.size());
    for (const auto& [name, each] : regions_) all.push_back(each);
    return all;
}

}  // namespace sluice::serve
