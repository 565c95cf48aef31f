// A copy of device memory is a command; it is asked for by name.
#include <sluice/sluice.hpp>

void make(sluice::tensor<float> x) {
#ifdef SLUICE_EXPECT_OK
    sluice::tensor<float> y = std::move(x);
#else
    sluice::tensor<float> y = x;
#endif
}
