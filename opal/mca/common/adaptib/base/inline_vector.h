// SPDX-License-Identifier: BSD-3-Clause
// InlineVector: a vector of plain values with room for the first `kInline` of them inside the
// object. It allocates only when it has to hold more, and then keeps that memory until it is
// destroyed.
// Errors: as std::vector, std::bad_alloc.
// Threads: none of its own.
// May touch: nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace adaptib {

template <class T, std::uint32_t kInline> class InlineVector {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    static_assert(kInline > 0);

public:
    using value_type = T;
    using iterator = T*;
    using const_iterator = const T*;

    InlineVector() = default;
    InlineVector(std::initializer_list<T> values) { append(values.begin(), values.size()); }
    InlineVector(const InlineVector& from) { append(from.begin(), from.size()); }
    InlineVector& operator=(const InlineVector& from) {
        if (this != &from) {
            clear();
            append(from.begin(), from.size());
        }
        return *this;
    }
    ~InlineVector() {
        if (!is_inline()) {
            delete[] values_;
        }
    }

    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }
    // Returns true if the values lie inside the object.
    bool is_inline() const { return values_ == inside_; }
    iterator begin() { return values_; }
    iterator end() { return values_ + size_; }
    const_iterator begin() const { return values_; }
    const_iterator end() const { return values_ + size_; }
    // REQUIRES: i < size().
    T& operator[](std::size_t i) { return values_[i]; }
    const T& operator[](std::size_t i) const { return values_[i]; }
    // REQUIRES: !empty().
    const T& front() const { return values_[0]; }
    const T& back() const { return values_[size_ - 1]; }

    void push_back(T value) {
        if (size_ == room_) [[unlikely]] {
            grow(2 * room_);
        }
        values_[size_++] = value;
    }
    void clear() { size_ = 0; }

    friend bool operator==(const InlineVector& a, const InlineVector& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

private:
    [[gnu::noinline]] void grow(std::uint32_t room) {
        T* const more = new T[room];
        std::copy(begin(), end(), more);
        if (!is_inline()) {
            delete[] values_;
        }
        values_ = more;
        room_ = room;
    }
    void append(const T* from, std::size_t count) {
        if (size_ + count > room_) {
            grow(static_cast<std::uint32_t>(size_ + count));
        }
        std::copy(from, from + count, end());
        size_ += static_cast<std::uint32_t>(count);
    }

    T* values_ = inside_;
    std::uint32_t size_ = 0;
    std::uint32_t room_ = kInline;
    T inside_[kInline] = {};
};

} // namespace adaptib
