// Queues of work, drained when somebody waits.

#include "streams.h"

#include <chrono>
#include <set>

namespace emulated {

namespace {

// The longest queue: work is waited for seldom where nothing is read back.
constexpr std::size_t LONGEST = 20'000;

struct Streams {
    std::set<Stream *> all;
    std::vector<Stream *> defaults; // the default stream of each device
    // What failed, for the next call that waits; it stays, as on a device.
    Result failure = SUCCESS;
};

Streams &streams() {
    static Streams *const the = [] {
        auto *made = new Streams;
        for (int device = 0; device < device_count(); device++) {
            auto *stream = new Stream;
            stream->device = device;
            made->defaults.push_back(stream);
            made->all.insert(stream);
        }
        return made;
    }();
    return *the;
}

double now() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void run(const Work &work) {
    const std::string why = work();
    if (!why.empty()) {
        streams().failure = refuse(why.find("assert") != std::string::npos ? ASSERT : LAUNCH_FAILED, "work", why);
    }
}

} // namespace

Stream *stream_of(void *handle) {
    const Guard guard(everything);
    // 1 is the legacy default stream, 2 that of each thread, of which there is one here.
    if (reinterpret_cast<std::uintptr_t>(handle) <= 2) {
        return streams().defaults.at(static_cast<std::size_t>(current_device()));
    }
    auto *stream = static_cast<Stream *>(handle);
    return streams().all.count(stream) != 0 ? stream : nullptr;
}

void *new_stream(int device, bool is_blocking) {
    const Guard guard(everything);
    auto *stream = new Stream;
    stream->device = device;
    stream->is_blocking = is_blocking;
    streams().all.insert(stream);
    return stream;
}

void delete_stream(void *handle) {
    const Guard guard(everything);
    auto *stream = static_cast<Stream *>(handle);
    drain(stream);
    streams().all.erase(stream);
    // Not freed: events may still name it.
}

Result enqueue(Stream *stream, const char *name, Work work) {
    const Guard guard(everything);
    static const bool is_eager = is_set("SCONCE_CUDA_EAGER"), is_traced = is_set("SCONCE_CUDA_TRACE");
    if (stream == nullptr) {
        return refuse(INVALID_HANDLE, name, "there is no such stream");
    }
    if (is_traced) {
        std::fprintf(stderr, "emulated device: stream %p: %s\n", static_cast<void *>(stream), name);
    }
    if (streams().failure != SUCCESS) {
        return streams().failure;
    }
    const bool is_default = stream == streams().defaults.at(static_cast<std::size_t>(stream->device));
    if (is_default || stream->is_blocking) {
        // The default stream's work begins after that of the blocking ones, and theirs after its.
        for (Stream *other : streams().all) {
            if (other != stream && other->device == stream->device && other->is_blocking && !other->queue.empty()) {
                drain(other);
            }
        }
    }
    stream->queue.push_back(std::move(work));
    return is_eager || stream->queue.size() > LONGEST ? drain(stream) : streams().failure;
}

Result drain(Stream *stream, const Place *until) {
    if (stream == nullptr) {
        return INVALID_HANDLE;
    }
    const Guard guard(everything);
    if (stream->queue.empty()) {
        return streams().failure;
    }
    const Access access;
    while (!stream->queue.empty() && (until == nullptr || !until->is_reached) && streams().failure == SUCCESS) {
        const Work work = std::move(stream->queue.front());
        stream->queue.pop_front();
        run(work);
    }
    return streams().failure;
}

Result drain_all() {
    const Guard guard(everything);
    for (Stream *stream : streams().all) {
        drain(stream);
    }
    return streams().failure;
}

Result record(Event &event, Stream *stream) {
    const Guard guard(everything);
    auto place = std::make_shared<Place>();
    place->stream = stream;
    event.place = place;
    return enqueue(stream, "an event", [place] {
        place->is_reached = true;
        place->at = now();
        return std::string();
    });
}

Result wait(Stream *stream, const Event &event) {
    const Guard guard(everything);
    if (event.place == nullptr) {
        return SUCCESS;
    }
    return enqueue(stream, "a wait for an event", [place = event.place] {
        if (!place->is_reached) {
            drain(place->stream, place.get());
        }
        return std::string();
    });
}

} // namespace emulated

extern "C" int sconce_emulated_enqueue(void *stream, const char *name, void (*work)(void *), void *argument) {
    return emulated::enqueue(emulated::stream_of(stream), name, [work, argument] {
        work(argument);
        return std::string();
    });
}

extern "C" bool sconce_emulated_is_device_memory(Address address, std::size_t bytes) {
    return emulated::is_device_memory(address, bytes);
}
