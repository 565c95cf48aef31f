#include "runtime/write_file.hpp"

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

#include "sluice/runtime/error.hpp"

namespace sluice::detail {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
    const std::string why = errno != 0 ? std::generic_category().message(errno) : "failed";
    throw file_error(file, file_error::no_offset, what, why, errc::io_failed);
}

}  // namespace

void write_file(const std::filesystem::path& file, const std::function<void(std::ostream& to)>& write) {
    errno = 0;  // streams do not say why; what the system said last is the best there is
    std::ofstream stream(file, std::ios::binary | std::ios::trunc);
    if (!stream) fail(file, "create");
    write(stream);
    stream.close();  // a full disk may only show now
    if (!stream) fail(file, "write");
}

}  // namespace sluice::detail
