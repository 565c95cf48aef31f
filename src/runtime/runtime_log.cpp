// SPDX-License-Identifier: Apache-2.0
#include "runtime/runtime_log.hpp"

#include <utility>

#include "sluice/base/printable.hpp"

namespace sluice {
namespace {

// Whether the calling thread is inside a log function.
thread_local bool is_inside_log = false;

struct inside_scope {
    inside_scope() noexcept { is_inside_log = true; }
    inside_scope(const inside_scope&) = delete;  // belongs to the thread
    inside_scope& operator=(const inside_scope&) = delete;
    ~inside_scope() { is_inside_log = false; }
};

}  // namespace

std::string_view to_string(log_level level) noexcept {
    switch (level) {
        case log_level::trace: return "trace";
        case log_level::debug: return "debug";
        case log_level::info: return "info";
        case log_level::warn: return "warn";
        case log_level::error: return "error";
        case log_level::critical: break;
    }
    return "critical";
}

std::string_view to_string(log_event event) noexcept {
    switch (event) {
        case log_event::device_found: return "device_found";
        case log_event::no_gpu: return "no_gpu";
        case log_event::library_handle: return "library_handle";
        case log_event::workspace_grown: return "workspace_grown";
        case log_event::graph_instantiated: return "graph_instantiated";
        case log_event::graph_updated: return "graph_updated";
        case log_event::module_loaded: return "module_loaded";
        case log_event::module_compiled: return "module_compiled";
        case log_event::device_fault: break;
    }
    return "device_fault";
}

namespace detail {

void runtime_log::begin(log_function function) {
    const std::lock_guard lock(mutex_);
    function_ = std::move(function);
    is_on_.store(static_cast<bool>(function_), std::memory_order_release);
}

void runtime_log::end() noexcept {
    if (!is_on_.exchange(false)) return;
    log_function ended;  // destroyed outside the lock: it is code of the user's
    if (is_inside_log) return;
    const std::lock_guard lock(mutex_);
    ended.swap(function_);
}

void runtime_log::give(log_entry& entry, const std::string& message) {
    if (is_inside_log) return;
    const std::string text = printable(message);
    entry.message = text;
    const std::lock_guard lock(mutex_);
    if (!function_) return;
    const inside_scope inside;
    function_(entry);
}

std::string message_of(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& known) {
        return known.what();
    } catch (...) {
        return "an exception of another type";
    }
}

}  // namespace detail
}  // namespace sluice
