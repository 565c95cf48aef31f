// SPDX-License-Identifier: Apache-2.0
// model_state: where one version of a model is between its load and its end, and version_state, which allows only the
// changes that there are:
//
//     unloaded -> loading -> ready -> unloading -> unloaded
//     loading -> failed      its load has failed
//     loading -> unloaded    another version that was loaded with it has failed, or it is not wanted any more
//     ready -> failed        its device has failed
//     failed -> loading, failed -> unloading
//
// A version that is ready stays so while it is loaded again, and when that fails: then there is a note.
//
// Readiness, the index of the repository, the metrics and the log read it.
//
// Thread safety: as of any value; the server keeps its states under its lock.
#pragma once

#include <string>
#include <string_view>

namespace sluice::serve {

// Where a version of a model is.
enum class model_state {
    unloaded,   // nothing of it is kept
    loading,    // it is read and tried; requests to it are refused until then
    ready,      // it answers requests
    failed,     // its load or its device has failed; the reason says how
    unloading,  // it takes no more requests, and answers those that it has
};

// "LOADING": the words of Triton's index, where unloaded and failed are "UNAVAILABLE" with a reason.
std::string_view index_word(model_state state) noexcept;
// "loading": the names above, for labels of metrics and for people.
std::string_view name_of(model_state state) noexcept;
// Whether a version may go from one state to the other in one step.
bool may_become(model_state from, model_state to) noexcept;

// The state of one version, with its reason.
class version_state {
public:
    model_state now() const noexcept { return now_; }                    // where it is
    const std::string& reason() const noexcept { return reason_; }       // why it is there, for people; may be empty
    bool is(model_state state) const noexcept { return now_ == state; }  // the same as now() == state

    // Goes to the next state. Throws errc::invalid_argument, and changes nothing, where may_become says no.
    void become(model_state next, std::string reason = {});
    // What people should know of it, without a change of the state: that loading it again has failed.
    void note(std::string reason) noexcept { reason_ = std::move(reason); }

private:
    model_state now_ = model_state::unloaded;
    std::string reason_;
};

}  // namespace sluice::serve
