// The optional header says what it misses. (tests/compile_fail/old_boost comes before the real Boost.)
#include <sluice/asio.hpp>
