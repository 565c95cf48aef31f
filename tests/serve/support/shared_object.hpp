// SPDX-License-Identifier: Apache-2.0
// An object of POSIX shared memory that goes away with the test.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <vector>

namespace sluice::serve::testing {

class shared_object {
public:
    explicit shared_object(std::size_t bytes) {
        static std::atomic<int> count{0};
        key_ = "/sluice-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
        object_ = ::shm_open(key_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
        if (object_ == -1) throw std::system_error(errno, std::generic_category(), "shm_open");
        resize(bytes);
    }
    shared_object(const shared_object&) = delete;  // it owns the object
    shared_object& operator=(const shared_object&) = delete;
    ~shared_object() {
        ::close(object_);
        ::shm_unlink(key_.c_str());
    }

    const std::string& key() const noexcept { return key_; }
    std::size_t size() const { return static_cast<std::size_t>(::lseek(object_, 0, SEEK_END)); }
    void resize(std::size_t bytes) const {
        if (::ftruncate(object_, static_cast<off_t>(bytes)) != 0)
            throw std::system_error(errno, std::generic_category(), "ftruncate");
    }

    // Floats from a byte on.
    void put(std::size_t offset, const std::vector<float>& values) const {
        const std::size_t bytes = values.size() * sizeof(float);
        if (::pwrite(object_, values.data(), bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes))
            throw std::system_error(errno, std::generic_category(), "pwrite");
    }
    std::vector<float> get(std::size_t offset, std::size_t count) const {
        std::vector<float> values(count);
        const std::size_t bytes = count * sizeof(float);
        if (::pread(object_, values.data(), bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes))
            throw std::system_error(errno, std::generic_category(), "pread");
        return values;
    }

private:
    std::string key_;
    int object_ = -1;
};

}  // namespace sluice::serve::testing
