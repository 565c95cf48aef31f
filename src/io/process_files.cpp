// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/process_files.hpp"

#include <limits.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <system_error>

#include "sluice/base/printable.hpp"

namespace sluice::io {

// Entries are linked once, never removed, and reused: so a signal handler can walk the list whatever it interrupts. The
// thread that took an entry from `unused` writes its fields. Readers read them only while they hold the entry: its
// state is then `shown` plus one for each reader. An entry returns to `unused` only from `shown`, so no field changes
// under a reader. Readers never wait, since one may have interrupted another.
struct detail::known_file {
    enum state : int { unused, filled, shown };

    std::atomic<int> now{filled};
    known_file* next = nullptr;
    const std::byte* begin = nullptr;  // of a mapping; null for a temporary file
    std::size_t length = 0;
    char path[PATH_MAX];
};

namespace {

using detail::known_file;

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<known_file*>::is_always_lock_free);

std::atomic<known_file*> entries{nullptr};

known_file* unused_entry() {
    for (known_file* each = entries.load(); each != nullptr; each = each->next) {
        int expected = known_file::unused;
        if (each->now.compare_exchange_strong(expected, known_file::filled)) return each;
    }
    auto* const made = new known_file;  // never deleted, see above
    made->next = entries.load();
    while (!entries.compare_exchange_weak(made->next, made)) {
    }
    return made;
}

class held_entry {
public:
    explicit held_entry(known_file& entry) noexcept : entry_(entry) {
        int now = entry_.now.load();
        while (!is_held_ && now >= known_file::shown) is_held_ = entry_.now.compare_exchange_weak(now, now + 1);
    }
    held_entry(const held_entry&) = delete;  // counts one
    held_entry& operator=(const held_entry&) = delete;
    ~held_entry() {
        if (is_held_) entry_.now.fetch_sub(1);
    }
    explicit operator bool() const noexcept { return is_held_; }

private:
    known_file& entry_;
    bool is_held_ = false;
};

detail::file_entry known(const std::string& path, const std::byte* begin, std::size_t length) {
    known_file* const entry = unused_entry();
    entry->begin = begin;
    entry->length = length;
    entry->path[path.copy(entry->path, sizeof entry->path - 1)] = '\0';
    entry->now.store(known_file::shown);
    return detail::file_entry(entry);
}

}  // namespace

void detail::forget_file::operator()(known_file* entry) const noexcept {
    // A reader on another thread releases it soon. One on this thread, a handler, has returned.
    int expected = known_file::shown;
    while (!entry->now.compare_exchange_weak(expected, known_file::unused)) expected = known_file::shown;
}

known_temporary::known_temporary(const std::filesystem::path& file) {
    // Absolute, as the process may change its directory. A name that is too long for the system is that of no file.
    std::error_code failure;
    std::filesystem::path whole = std::filesystem::absolute(file, failure);
    if (failure || whole.native().size() >= PATH_MAX) whole = file;
    if (whole.native().size() < PATH_MAX) entry_ = known(whole.native(), nullptr, 0);
}

known_mapping::known_mapping(const void* begin, std::size_t length, const std::filesystem::path& file)
    : entry_(known(printable(file.native()), static_cast<const std::byte*>(begin), length)) {}

void remove_known_temporaries() noexcept {
    for (known_file* each = entries.load(); each != nullptr; each = each->next) {
        const held_entry held(*each);
        if (held && each->begin == nullptr) ::unlink(each->path);
    }
}

const char* mapped_file_at(const void* address) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    for (known_file* each = entries.load(); each != nullptr; each = each->next) {
        const held_entry held(*each);
        if (!held || each->begin == nullptr) continue;
        // The last page of a file belongs to its mapping as a whole, but only what the file has is ever read.
        const auto begin = reinterpret_cast<std::uintptr_t>(each->begin);
        if (at >= begin && at - begin < each->length) return each->path;
    }
    return nullptr;
}

}  // namespace sluice::io
