// SPDX-License-Identifier: Apache-2.0
// ptx_accesses: what the PTX of a kernel proves about its parameters: which of them it reads through, and which it
// writes through.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::check {

enum class ptx_access : unsigned char {
    none,     // no address comes from it
    read,     // all accesses to addresses that come from it are loads
    written,  // a store or an atomic operation has an address that comes from it
    unknown,  // it is stored, passed to a function, or used by an instruction that is not known here
};

// By the names of the kernels (`.entry`), for each parameter in order. Every register that is computed from a parameter
// counts as coming from it, whatever the path. A text that is not understood has no kernels. Costs O(bytes) times the
// longest chain of registers, which is cut after 64 rounds: then all is unknown.
std::map<std::string, std::vector<ptx_access>, std::less<>> accesses_in_ptx(std::string_view text);

// Whether an image of a module is a text of PTX: it begins with a comment or ".version". Reads at most 4096 bytes, of
// an image that begins with spaces.
bool is_ptx(const char* image);

}  // namespace sluice::check
