// SPDX-License-Identifier: Apache-2.0
// What is true of a process that was forked: none of the library's threads are there.
#pragma once

#include <string_view>

namespace sluice::c {

// A member `birth` of what needs the library's threads. What was made before a fork is refused in the child, and never
// destroyed there: both would wait for threads that do not exist. Thread safety: all members may be called on any
// thread.
class made_here {
public:
    made_here() noexcept;
    bool is_here() const noexcept;
    // Throws error (errc::runtime_closed) with the function and what it was given.
    void require(std::string_view function, std::string_view what) const;

private:
    unsigned forks_;
};

// Destroys an object of a handle, unless it was made before the process was forked.
template <typename T>
void destroy_if_here(T* object) noexcept {
    if (object != nullptr && object->birth.is_here()) delete object;
}

}  // namespace sluice::c
