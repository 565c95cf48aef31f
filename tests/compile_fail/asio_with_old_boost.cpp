// SPDX-License-Identifier: Apache-2.0
// The optional header says what is missing. (tests/compile_fail/old_boost comes before the real Boost.)
#include <sluice/asio.hpp>
