// SPDX-License-Identifier: Apache-2.0
#include "c/status.hpp"

#include <new>
#include <system_error>

namespace sluice::c {
namespace {

// The last failure of this thread.
struct last_failure {
    std::string text;
    bool is_lost = false;  // there was no memory for the text
};
thread_local last_failure latest;

sluice_status status_of(const std::error_code& code, sluice_status of_others) noexcept {
    return code.category() == sluice_category() ? code.value() : of_others;
}

}  // namespace

static_assert(SLUICE_INVALID_ARGUMENT == static_cast<int>(errc::invalid_argument) &&
              SLUICE_SHAPE_MISMATCH == static_cast<int>(errc::shape_mismatch) &&
              SLUICE_DEVICE_NOT_FOUND == static_cast<int>(errc::device_not_found) &&
              SLUICE_OUT_OF_MEMORY == static_cast<int>(errc::out_of_memory) &&
              SLUICE_UNSUPPORTED == static_cast<int>(errc::unsupported) &&
              SLUICE_DEVICE_FAILED == static_cast<int>(errc::device_failed) &&
              SLUICE_RUNTIME_CLOSED == static_cast<int>(errc::runtime_closed) &&
              SLUICE_TIMED_OUT == static_cast<int>(errc::timed_out) &&
              SLUICE_CANCELED == static_cast<int>(errc::canceled) &&
              SLUICE_GRAPH_REFUSED == static_cast<int>(errc::graph_refused) &&
              SLUICE_BAD_FILE == static_cast<int>(errc::bad_file) &&
              SLUICE_IO_FAILED == static_cast<int>(errc::io_failed) &&
              SLUICE_OUT_OF_RANGE == static_cast<int>(errc::out_of_range));

failure current_failure() noexcept {
    try {
        try {
            throw;
        } catch (const device_error& thrown) {
            return {status_of(thrown.code(), SLUICE_DEVICE_FAILED), thrown.what()};
        } catch (const error& thrown) {
            return {status_of(thrown.code(), SLUICE_INTERNAL), thrown.what()};
        } catch (const std::bad_alloc&) {
            return {SLUICE_OUT_OF_MEMORY, "the host has not enough memory"};
        } catch (const std::exception& thrown) {
            return {SLUICE_INTERNAL, thrown.what()};
        } catch (...) {
            return {SLUICE_INTERNAL, "an exception of an unknown type"};
        }
    } catch (...) {  // no memory for the text
        return {SLUICE_OUT_OF_MEMORY, {}};
    }
}

sluice_status report(const failure& what) noexcept {
    try {
        latest.text = what.text;
        latest.is_lost = what.text.empty();
    } catch (...) {
        latest.is_lost = true;
    }
    return what.status;
}

}  // namespace sluice::c

const char* sluice_last_error(void) {
    using sluice::c::latest;
    return latest.is_lost ? "there was no memory for the text of the error" : latest.text.c_str();
}

const char* sluice_status_name(sluice_status status) {
    switch (status) {
        case SLUICE_OK: return "ok";
        case SLUICE_INVALID_ARGUMENT: return "invalid argument";
        case SLUICE_SHAPE_MISMATCH: return "shape mismatch";
        case SLUICE_DEVICE_NOT_FOUND: return "device not found";
        case SLUICE_OUT_OF_MEMORY: return "out of memory";
        case SLUICE_UNSUPPORTED: return "unsupported";
        case SLUICE_DEVICE_FAILED: return "device failed";
        case SLUICE_RUNTIME_CLOSED: return "runtime closed";
        case SLUICE_TIMED_OUT: return "timed out";
        case SLUICE_CANCELED: return "canceled";
        case SLUICE_GRAPH_REFUSED: return "graph refused";
        case SLUICE_BAD_FILE: return "bad file";
        case SLUICE_IO_FAILED: return "input or output failed";
        case SLUICE_OUT_OF_RANGE: return "out of range";
        case SLUICE_INTERNAL: return "internal error";
        default: return "unknown status";
    }
}

const char* sluice_version(void) { return SLUICE_VERSION; }
int sluice_c_version(void) { return 100 * SLUICE_C_VERSION_MAJOR + SLUICE_C_VERSION_MINOR; }
