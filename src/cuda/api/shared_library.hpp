// A big CUDA library, opened when it is first needed: linked in, it would cost every start of the program
// tens of milliseconds, and starting without it would be impossible.
#pragma once

#include <string>
#include <string_view>

namespace sluice::cuda::api {

class shared_library {
public:
    // Opens "lib<name>.so.<major>". Throws errc::unsupported, saying what was tried. It stays open.
    shared_library(std::string_view name, int major);

    // Throws errc::unsupported when the library has no such function.
    template <typename Function>
    void find(Function*& function, const char* symbol) const {
        function = reinterpret_cast<Function*>(symbol_address(symbol));
    }

private:
    void* symbol_address(const char* symbol) const;

    std::string file_;
    void* handle_;
};

}  // namespace sluice::cuda::api
