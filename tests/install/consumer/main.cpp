#include <iostream>
#include <sluice/runtime/error.hpp>

float twice(float value);  // kernel.cu

int main() {
    try {
        throw sluice::error(sluice::errc::unsupported, "nothing to do");
    } catch (const sluice::error& problem) {
        std::cout << problem.what() << '\n';
        return problem.code() == sluice::errc::unsupported && twice(21) == 42 ? 0 : 1;
    }
}
