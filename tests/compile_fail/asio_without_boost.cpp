// The optional header says what it misses, and the rest does without.
#ifdef SLUICE_EXPECT_OK
#include <sluice/sluice.hpp>
#else
#include <sluice/asio.hpp>
#endif
