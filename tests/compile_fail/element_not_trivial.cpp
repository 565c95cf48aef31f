// Device memory holds bytes: elements with constructors or pointers to own do not belong there.
#include <sluice/sluice.hpp>

#include <string>

void make(sluice::scheduling_policy& pool) {
#ifdef SLUICE_EXPECT_OK
    sluice::sync(sluice::zeros<int>({4}), pool);
#else
    sluice::sync(sluice::zeros<std::string>({4}), pool);
#endif
}
