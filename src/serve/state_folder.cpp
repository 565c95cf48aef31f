// SPDX-License-Identifier: Apache-2.0
#include "serve/state_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/descriptor_io.hpp"
#include "serve/workers/packed.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/io/file_descriptor.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic = "sluice state 1\n";
constexpr std::string_view end_mark = ".end";
constexpr std::size_t hex_digits = 16;
constexpr int most_tries = 100;  // while other servers remove a folder, because its sequence has ended there
// Sequences whose last step has a number stay when they have ended, so that it may be asked for again: this many until
// they are idle, and where there are more, each for this time.
constexpr std::size_t most_ended = 1000;
constexpr std::chrono::seconds many_ended_stay{10};

// RFC 4648, section 5, without padding: a name of a file.
std::string base64url(std::string_view bytes) {
    static constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    std::string made;
    std::uint32_t bits = 0;
    int count = 0;
    for (const char each : bytes) {
        bits = bits << 8 | static_cast<unsigned char>(each);
        for (count += 8; count >= 6; count -= 6) made += letters[bits >> (count - 6) & 63];
    }
    if (count != 0) made += letters[bits << (6 - count) & 63];
    return made;
}

std::string hexadecimal(std::uint64_t value) {
    std::array<char, hex_digits> text{};
    const char* const end = std::to_chars(text.data(), text.data() + text.size(), value, 16).ptr;
    const auto length = static_cast<std::size_t>(end - text.data());
    return std::string(hex_digits - length, '0') + std::string(text.data(), length);
}

std::string name_of(sequence_place at) {
    return hexadecimal(at.life) + "." + hexadecimal(at.steps) + std::string(at.has_ended ? end_mark : "");
}

// None: it is no state.
std::optional<sequence_place> place_of(std::string_view name) {
    sequence_place made;
    if (name.ends_with(end_mark)) {
        made.has_ended = true;
        name.remove_suffix(end_mark.size());
    }
    if (name.size() != 2 * hex_digits + 1 || name[hex_digits] != '.') return std::nullopt;
    const auto read = [](std::string_view text, std::uint64_t& to) {
        const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), to, 16);
        return failure == std::errc() && end == text.data() + text.size();
    };
    if (!read(name.substr(0, hex_digits), made.life) || !read(name.substr(hex_digits + 1), made.steps))
        return std::nullopt;
    return made;
}

// No other process makes it, on no machine.
std::string random_name() {
    thread_local std::mt19937_64 random = [] {
        std::random_device device;
        std::seed_seq seed{device(), device(), device(), device()};
        return std::mt19937_64(seed);
    }();
    return "." + hexadecimal(random());
}

std::string words_of(int cause) { return std::generic_category().message(cause); }

// What is in a folder. 0, or why it cannot be read.
template <typename Function>
int for_each_name(const fs::path& folder, const Function& function) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
    if (!open) return errno;
    while (true) {
        errno = 0;
        const dirent* const each = ::readdir(open.get());  // NOLINT(concurrency-mt-unsafe): the DIR is this thread's
        if (each == nullptr) return errno;
        const std::string_view name = each->d_name;
        if (name != "." && name != "..") function(std::string(name));
    }
}

// FNV-1a, of what a disk may damage.
std::uint64_t checksum(std::string_view bytes) noexcept {
    std::uint64_t made = 0xcbf2'9ce4'8422'2325U;
    for (const char each : bytes) made = (made ^ static_cast<unsigned char>(each)) * 0x100'0000'01b3U;
    return made;
}

std::string packed(const sequence_request& of, const kept_state& state) {
    packed_writer to;
    to.put(of.client);
    to.put(of.id.words());
    to.put(static_cast<std::uint64_t>(state.values.size()));
    for (std::size_t i = 0; i < state.values.size(); ++i) {
        const nn::any_tensor& value = state.values[i];
        to.put(std::string_view(state.like[i].name));
        to.put(value.type());
        to.put(static_cast<std::uint64_t>(value.shape().size()));
        for (const std::size_t length : value.shape()) to.put(static_cast<std::uint64_t>(length));
        to.put(std::string_view(reinterpret_cast<const char*>(value.bytes().data()), value.size_bytes()));
    }
    return to.take();
}

bool fits(const nn::value_info& like, const std::string& name, io::dtype type, const std::vector<std::size_t>& shape) {
    if (like.name != name || like.type != type) return false;
    if (!like.shape) return true;
    return std::ranges::equal(*like.shape, shape,
                              [](const nn::dimension& a, std::size_t b) { return !a.length || *a.length == b; });
}

kept_state unpacked(std::string_view bytes, const sequence_request& of, const std::vector<nn::value_info>& like) {
    const auto refuse = [&] {
        throw refusal(refusal_kind::bad_request, "the sequence " + of.id.words() +
                                                     " has ended: its state has other names, types or shapes than the "
                                                     "model has now; begin it again with sequence_start");
    };
    packed_reader from(bytes);
    if (from.text() != of.client || from.text() != of.id.words())
        throw worker_damage("it is of another sequence");  // only a hand may have moved it there
    kept_state made{.like = like, .values = {}};
    if (from.count(1) != like.size()) refuse();
    for (const nn::value_info& each : like) {
        const std::string name = from.text();
        const auto type = from.one_of(io::dtype::boolean);
        std::vector<std::size_t> shape(from.count(sizeof(std::uint64_t)));
        for (std::size_t& length : shape) length = static_cast<std::size_t>(from.number<std::uint64_t>());
        if (!fits(each, name, type, shape)) refuse();
        const std::string values = from.text();
        const auto expected = io::byte_count(shape, type);
        if (!expected || *expected != values.size()) throw worker_damage("its shape does not fit its bytes");
        std::byte* to = nullptr;
        made.values.push_back(nn::any_tensor::make_on_host(type, std::move(shape), to));
        if (!values.empty()) std::memcpy(to, values.data(), values.size());
    }
    from.require_end();
    return made;
}

[[noreturn]] void refuse_write(const sequence_request& of, int cause) {
    throw refusal::for_now("the state of the sequence " + of.id.words() +
                           " cannot be written, and this step was not made: " + words_of(cause));
}

// It must not be asked for again without its number.
[[noreturn]] void refuse_unknown_outcome(const sequence_request& of, const std::string& why) {
    throw refusal(refusal_kind::failed, "whether this step of the sequence " + of.id.words() +
                                            " was made is not known; sequence_step asks for it again: " + why);
}

[[noreturn]] void refuse_read(const sequence_request& of, int cause) {
    throw refusal::for_now("the state of the sequence " + of.id.words() + " cannot be read: " + words_of(cause));
}

// A file with these bytes, under a name of its own, in a sequence's folder. Missing folders are made, but not that of
// the model: where it is gone, its volume is.
class temporary_state {
public:
    temporary_state(const fs::path& folder, const sequence_request& of) : of_(of), path_(folder / random_name()) {
        for (int i = 0; i < most_tries; ++i) {
            file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            if (file_ >= 0 || errno != ENOENT) break;
            if (::mkdir(folder.parent_path().c_str(), 0700) != 0 && errno != EEXIST) break;
            if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST && errno != ENOENT) break;
            errno = ENOENT;
        }
        if (file_ < 0) refuse_write(of_, errno);
    }
    temporary_state(const temporary_state&) = delete;  // the file is its own
    temporary_state& operator=(const temporary_state&) = delete;
    ~temporary_state() {
        if (file_ >= 0) ::close(file_);
        ::unlink(path_.c_str());
    }

    void write(const std::string& bytes) {
        const io::write_outcome made = io::write_all_at(file_, 0, std::as_bytes(std::span(bytes)));
        if (made.cause != 0) refuse_write(of_, made.cause);
    }
    // False: the name is taken.
    bool appear_as(const fs::path& name) {
        if (::close(std::exchange(file_, -1)) != 0) refuse_write(of_, errno);  // where another machine has the file
        if (::link(path_.c_str(), name.c_str()) == 0) return true;
        const int cause = errno;
        struct stat its{};
        const bool is_known = ::stat(path_.c_str(), &its) == 0;
        if (is_known && its.st_nlink == 2) return true;  // its answer was lost, or it was asked for twice
        if (cause == EEXIST) return false;
        if (!is_known || cause == EIO || cause == ETIMEDOUT || cause == ESTALE)
            refuse_unknown_outcome(of_, words_of(cause));
        refuse_write(of_, cause);
    }

private:
    const sequence_request& of_;
    const fs::path path_;
    int file_ = -1;
};

std::string bytes_of(int file, std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t at = 0;
    while (at < size) {
        const ssize_t got = io::retried([&] { return ::read(file, bytes.data() + at, size - at); });
        if (got <= 0) break;
        at += static_cast<std::size_t>(got);
    }
    bytes.resize(at);
    return bytes;
}

std::chrono::nanoseconds time_of(const struct stat& file) noexcept {
    return std::chrono::seconds(file.st_mtim.tv_sec) + std::chrono::nanoseconds(file.st_mtim.tv_nsec);
}

}  // namespace

std::size_t kept_state::size_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const nn::any_tensor& each : values) bytes += each.size_bytes();
    return bytes;
}

void state_folder::require_shared(const fs::path& folder) {
    const auto refuse = [&](const std::string& why) { throw file_error(folder, 0, "", why); };
    struct stat of{};
    if (::stat(folder.c_str(), &of) != 0) refuse(words_of(errno));
    if (!S_ISDIR(of.st_mode)) refuse("it is no folder");
    if ((of.st_mode & S_IWOTH) != 0) refuse("any user may write there, and could change states of sequences");
}

state_folder::state_folder(fs::path folder) : folder_(std::move(folder)) {
    require_shared(folder_.parent_path());
    const auto refuse = [&](const std::string& why) { throw file_error(folder_, 0, "", why); };
    if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) refuse(words_of(errno));
    const fs::path one = folder_ / random_name(), other = folder_ / random_name();
    const io::file_descriptor file(::open(one.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    int cause = file ? 0 : errno;
    if (cause == 0 && ::link(one.c_str(), other.c_str()) != 0) cause = errno;
    ::unlink(other.c_str());
    ::unlink(one.c_str());
    if (cause != 0) refuse("files there cannot be made, or not have two names: " + words_of(cause));
}

fs::path state_folder::folder_of(const sequence_request& of) const {
    const std::string id = of.id.text.empty() ? "n" + std::to_string(of.id.number) : "t" + base64url(of.id.text);
    return folder_ / ("c" + base64url(of.client)) / id;
}

std::vector<sequence_place> state_folder::places_of(const sequence_request& of) const {
    std::vector<sequence_place> all;
    const int cause = for_each_name(folder_of(of), [&](const std::string& name) {
        if (const auto its = place_of(name)) all.push_back(*its);
    });
    if (cause == ENOENT && ::access(folder_.c_str(), F_OK) == 0) return {};
    if (cause != 0) refuse_read(of, cause);
    std::ranges::sort(all);
    return all;
}

std::optional<sequence_place> state_folder::find(const sequence_request& of) const {
    const std::vector<sequence_place> all = places_of(of);
    return all.empty() ? std::nullopt : std::optional(all.back());
}

sequence_place state_folder::begin(const sequence_request& of, std::chrono::system_clock::time_point arrived,
                                   std::size_t most) {
    const auto life = std::chrono::duration_cast<std::chrono::nanoseconds>(arrived.time_since_epoch()).count();
    const sequence_place made{.life = static_cast<std::uint64_t>(life), .steps = 0};
    const auto last = find(of);
    if (last && last->life >= made.life)
        throw refusal::for_now("the sequence " + of.id.words() + " has begun again after this step came");
    if (!last || last->has_ended) require_room(of, most);
    return made;
}

std::optional<kept_state> state_folder::read(const sequence_request& of, sequence_place at,
                                             const std::vector<nn::value_info>& like,
                                             const std::function<void(std::size_t)>& reserve) const {
    const fs::path path = folder_of(of) / name_of(at);
    const io::file_descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat its{};
    if (!file || ::fstat(file.get(), &its) != 0) {
        if (errno == ENOENT) return std::nullopt;
        refuse_read(of, errno);
    }
    const auto size = static_cast<std::size_t>(its.st_size);
    reserve(size);
    const std::string all = bytes_of(file.get(), size);
    try {
        constexpr std::size_t head = magic.size() + sizeof(std::uint64_t);
        if (all.size() < head || !all.starts_with(magic)) throw worker_damage("it is no state");
        const std::string_view body = std::string_view(all).substr(head);
        if (packed_reader(std::string_view(all).substr(magic.size(), sizeof(std::uint64_t))).number<std::uint64_t>() !=
            checksum(body))
            throw worker_damage("its checksum is wrong");
        return unpacked(body, of, like);
    } catch (const worker_damage& why) {
        throw refusal(refusal_kind::failed, "the state of the sequence " + of.id.words() + ", " +
                                                in_quotes(path.native()) + ", is damaged: " + why.what());
    }
}

bool state_folder::write(const sequence_request& of, sequence_place at, const kept_state& state) {
    const fs::path folder = folder_of(of);
    const auto remove = [&](sequence_place which) { ::unlink((folder / name_of(which)).c_str()); };
    {
        temporary_state file(folder, of);
        if (!at.has_ended) {
            const std::string body = packed(of, state);
            packed_writer head;
            head.put(checksum(body));
            file.write(std::string(magic) + head.bytes() + body);
        }
        if (!file.appear_as(folder / name_of(at))) return false;
    }
    // A step that was made long after later ones, or after a new beginning, is no step.
    std::vector<sequence_place> all;
    try {
        all = places_of(of);
    } catch (const refusal& why) {
        refuse_unknown_outcome(of, why.what());
    }
    const auto has = [&](sequence_place which) { return std::ranges::find(all, which) != all.end(); };
    const sequence_place before{.life = at.life, .steps = at.steps - 1};
    sequence_place alike = at;
    alike.has_ended = !at.has_ended;
    if (has(at) && !has(alike) && all.back().life == at.life && all.back().steps == at.steps + 1)
        return true;  // and the next one was made from it
    const bool is_next = before.steps == 0 || has(before);
    if (all.empty() || all.back() > at || !is_next || has(alike)) {
        remove(at);
        return false;
    }
    // The step before stays, for a client that did not get the answer and asks again.
    const auto first_not_before = std::ranges::lower_bound(all, at);
    const bool was_live = first_not_before != all.begin() && !std::prev(first_not_before)->has_ended;
    const bool stays = !at.has_ended || of.step;
    for (const sequence_place each : all)
        if (each < before || !stays) remove(each);
    if (!stays) ::rmdir(folder.c_str());
    count(of.client, (at.has_ended ? 0 : 1) - (was_live ? 1 : 0), at.has_ended && stays ? 1U : 0U);
    return true;
}

// `live`: more, or where it is negative fewer.
void state_folder::count(const std::string& client, std::ptrdiff_t live, std::size_t ended) {
    const auto add = [](std::size_t& to, std::ptrdiff_t more) {
        to = more < 0 && to < static_cast<std::size_t>(-more) ? 0 : to + static_cast<std::size_t>(more);
    };
    const std::lock_guard lock(mutex_);
    add(live_of_["c" + base64url(client)], live);
    add(live_, live);
    ended_ += ended;
}

// Of a client, without what was written here since.
std::size_t state_folder::live_now(const std::string& client) const {
    std::size_t live = 0;
    for_each_name(folder_ / client, [&](const std::string& sequence) {
        sequence_place at;
        for_each_name(folder_ / client / sequence, [&](const std::string& name) {
            if (const auto place = place_of(name)) at = std::max(at, *place);
        });
        live += at.life != 0 && !at.has_ended ? 1 : 0;
    });
    return live;
}

void state_folder::require_room(const sequence_request& of, std::size_t most) {
    const std::string client = "c" + base64url(of.client);
    const std::size_t of_client = of.budget ? of.budget->most_sequences() : SIZE_MAX;
    std::unique_lock lock(mutex_);
    if (live_ < most && live_of_[client] < of_client) return;
    lock.unlock();
    const std::size_t its = live_now(client);  // some may have ended on another server
    lock.lock();
    live_ = live_ - std::min(live_, live_of_[client]) + its;
    live_of_[client] = its;
    if (live_ < most && its < of_client) return;
    throw refusal(refusal_kind::queue_full,
                  "the sequence " + of.id.words() + " cannot begin: " +
                      (live_ >= most ? std::to_string(live_) + " are live on all servers, and the model accepts " +
                                           std::to_string(most) + " (max_sequences)"
                                     : "its client has " + std::to_string(its) + ", and may have no more at a time") +
                      "; one that ends (sequence_end) makes room",
                  live_);
}

void state_folder::remove_idle(std::chrono::milliseconds idle, const std::atomic<bool>& stops) noexcept try {
    // The time of the machine that has the files, which is not always this one.
    const fs::path probe = folder_ / random_name();
    struct stat now{};
    {
        const io::file_descriptor file(::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        const bool is_known = file && ::fstat(file.get(), &now) == 0;
        ::unlink(probe.c_str());
        if (!is_known) return;
    }
    const auto is_idle = [&](std::chrono::nanoseconds last, std::chrono::nanoseconds longest) {
        return time_of(now) - last > longest;
    };
    const std::chrono::milliseconds idle_ended =
        ended_ > most_ended ? std::min<std::chrono::milliseconds>(idle, many_ended_stay) : idle;
    // One that is new is empty because another server has just made it, and writes there next.
    const auto remove_empty = [&](const fs::path& folder) {
        struct stat its{};
        if (::stat(folder.c_str(), &its) == 0 && is_idle(time_of(its), idle)) ::rmdir(folder.c_str());
    };
    std::map<std::string, std::size_t> live_of;
    std::size_t live = 0, ended = 0;
    for_each_name(folder_, [&](const std::string& client) {
        if (!client.starts_with('c')) return;
        for_each_name(folder_ / client, [&](const std::string& sequence) {
            if (stops) return;
            const fs::path folder = folder_ / client / sequence;
            std::vector<std::string> files;
            std::chrono::nanoseconds last{0};
            sequence_place at;
            const int cause = for_each_name(folder, [&](const std::string& name) {
                struct stat its{};
                if (::stat((folder / name).c_str(), &its) == 0) last = std::max(last, time_of(its));
                if (const auto place = place_of(name)) at = std::max(at, *place);
                files.push_back(name);
            });
            if (cause != 0) return;
            if (files.empty()) return remove_empty(folder);
            if (!is_idle(last, at.has_ended ? idle_ended : idle)) {
                ++(at.has_ended ? ended : live);
                if (!at.has_ended) ++live_of[client];
                return;
            }
            for (const std::string& each : files) ::unlink((folder / each).c_str());
            ::rmdir(folder.c_str());
        });
        remove_empty(folder_ / client);
    });
    if (stops) return;
    const std::lock_guard lock(mutex_);
    live_of_ = std::move(live_of);
    live_ = live;
    ended_ = ended;
} catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory; the next time there may be more
}

}  // namespace sluice::serve
