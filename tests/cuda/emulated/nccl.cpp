// NCCL (libnccl.so.2), as far as Sconce calls it: communicators of several processes, whose groups of sends and receives run in the order of
// a stream, as other work does. Bytes go through Unix sockets between the processes.
//
// A message is preceded by its size. What NCCL would leave undefined or wait for without end is refused with a line on stderr: a send or
// receive outside of a group (two ranks that both send first wait for each other), memory that is not a device's, a device that is not the
// communicator's, two ranks on one device, sizes that differ, a rank beyond the last.
//
// Environment
// - SCONCE_NCCL_FAULT: `fail:R:N` lets the group number N (from 0) of rank R fail, as when the network is gone; `hang:R:N`: it never ends.

#include "streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

extern "C" Result cuCtxGetDevice(int *device);

namespace {

// `ncclResult_t`.
enum Status : int { OK = 0, SYSTEM = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE = 6 };

struct UniqueId {
    char text[128];
};

struct Communicator {
    int rank, size, device;
    std::vector<int> sockets; // to each rank; -1 to itself
    std::atomic<int> error{OK};
    int groups = 0;
    bool is_ended = false;
};

// What a rank says to each other one first.
struct Greeting {
    int rank, size, device;
};

struct Transfer {
    bool is_send;
    Address address;
    std::uint64_t bytes;
    int peer;
    // What has been moved, of the size and then of the bytes.
    std::size_t moved = 0;
    std::uint64_t announced = 0;
};

// The transfers of one communicator and stream within a group.
struct Group {
    Communicator *communicator;
    void *stream;
    int number;
    std::vector<Transfer> transfers;
};

thread_local int group_depth = 0;
thread_local std::vector<Group> groups;

Status refuse(Status status, const char *function, const std::string &why) {
    std::fprintf(stderr, "emulated device: %s: %s\n", function, why.c_str());
    return status;
}

// Moves all of these bytes, however long it takes.
bool move_all(int socket, void *data, std::size_t bytes, bool is_send) {
    auto *at = static_cast<char *>(data);
    while (bytes > 0) {
        const ssize_t moved = is_send ? send(socket, at, bytes, MSG_NOSIGNAL) : recv(socket, at, bytes, 0);
        if (moved < 0 && errno == EINTR) {
            continue;
        }
        if (moved <= 0) {
            return false;
        }
        at += moved;
        bytes -= static_cast<std::size_t>(moved);
    }
    return true;
}

// A socket of Linux's abstract names, which go with the process.
sockaddr_un address_of(const UniqueId &id, int rank, socklen_t &length) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = std::string(id.text) + "-" + std::to_string(rank);
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return address;
}

int connected(const UniqueId &id, int rank) {
    socklen_t length = 0;
    const sockaddr_un address = address_of(id, rank, length);
    for (;;) {
        const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (socket < 0 || connect(socket, reinterpret_cast<const sockaddr *>(&address), length) == 0) {
            return socket;
        }
        close(socket);
        // It isn't there yet.
        usleep(1000);
    }
}

int listening(const UniqueId &id, int rank, int size) {
    socklen_t length = 0;
    const sockaddr_un address = address_of(id, rank, length);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0 || bind(socket, reinterpret_cast<const sockaddr *>(&address), length) != 0 || listen(socket, size) != 0) {
        return -1;
    }
    return socket;
}

Status greet(Communicator &own, int socket) {
    Greeting said{own.rank, own.size, own.device}, heard{};
    if (!move_all(socket, &said, sizeof(said), true) || !move_all(socket, &heard, sizeof(heard), false)) {
        return refuse(REMOTE, "ncclCommInitRank", "a rank is gone");
    }
    if (heard.size != own.size || heard.rank < 0 || heard.rank >= own.size || heard.rank == own.rank || own.sockets[static_cast<std::size_t>(heard.rank)] >= 0) {
        return refuse(INVALID_ARGUMENT, "ncclCommInitRank", "ranks have the same number, or different sizes");
    }
    own.sockets[static_cast<std::size_t>(heard.rank)] = socket;
    if (heard.device == own.device) {
        return refuse(INVALID_USAGE, "ncclCommInitRank",
                      "duplicate GPU: ranks " + std::to_string(own.rank) + " and " + std::to_string(heard.rank) + " are both on device " + std::to_string(own.device));
    }
    fcntl(socket, F_SETFL, O_NONBLOCK);
    return OK;
}

// Moves what the socket takes or gives; why it can't be moved, or nothing.
std::string advance(Transfer &transfer, int socket) {
    constexpr std::size_t HEAD = sizeof(transfer.announced);
    if (transfer.moved == 0 && transfer.is_send) {
        transfer.announced = transfer.bytes;
    }
    while (transfer.moved < HEAD + transfer.bytes) {
        const bool is_head = transfer.moved < HEAD;
        char *at = is_head ? reinterpret_cast<char *>(&transfer.announced) + transfer.moved : reinterpret_cast<char *>(transfer.address) + (transfer.moved - HEAD);
        const std::size_t left = (is_head ? HEAD : HEAD + transfer.bytes) - transfer.moved;
        const ssize_t moved = transfer.is_send ? send(socket, at, left, MSG_NOSIGNAL) : recv(socket, at, left, 0);
        if (moved < 0 && (errno == EAGAIN || errno == EINTR)) {
            return "";
        }
        if (moved <= 0) {
            return "rank " + std::to_string(transfer.peer) + " is gone";
        }
        transfer.moved += static_cast<std::size_t>(moved);
        if (transfer.moved == HEAD && transfer.announced != transfer.bytes) {
            return "rank " + std::to_string(transfer.peer) + " sends " + std::to_string(transfer.announced) + " bytes where " + std::to_string(transfer.bytes) + " are received";
        }
    }
    return "";
}

bool is_done(const Transfer &transfer) { return transfer.moved == sizeof(transfer.announced) + transfer.bytes; }

// Whether a transfer is the next one in its direction between the two ranks: those of a pair go one after another.
bool is_next(const Group &group, std::size_t index) {
    const Transfer &own = group.transfers[index];
    for (std::size_t i = 0; i < index; i++) {
        const Transfer &other = group.transfers[i];
        if (other.peer == own.peer && other.is_send == own.is_send && !is_done(other)) {
            return false;
        }
    }
    return true;
}

// The fault that is asked for: `fail` or `hang`, or nothing.
std::string fault(const Communicator &communicator, int group) {
    const std::string text = emulated::setting("SCONCE_NCCL_FAULT", "");
    const std::size_t colon = text.find(':');
    const std::string place = std::to_string(communicator.rank) + ":" + std::to_string(group);
    return colon != std::string::npos && text.substr(colon + 1) == place ? text.substr(0, colon) : "";
}

void fail(Communicator &communicator, const std::string &why) {
    refuse(REMOTE, "NCCL", "rank " + std::to_string(communicator.rank) + ": " + why);
    communicator.error = REMOTE;
    // As a network does, the others notice.
    for (const int socket : communicator.sockets) {
        if (socket >= 0) {
            shutdown(socket, SHUT_RDWR);
        }
    }
}

void run(Group &group) {
    Communicator &communicator = *group.communicator;
    if (communicator.error != OK || communicator.is_ended) {
        return;
    }
    const std::string asked = fault(communicator, group.number);
    if (asked == "fail") {
        return fail(communicator, "a fault that was asked for");
    }
    while (asked == "hang") {
        pause();
    }
    for (;;) {
        std::vector<pollfd> waits;
        for (std::size_t i = 0; i < group.transfers.size(); i++) {
            Transfer &transfer = group.transfers[i];
            if (is_done(transfer) || !is_next(group, i)) {
                continue;
            }
            const int socket = communicator.sockets[static_cast<std::size_t>(transfer.peer)];
            const std::string why = advance(transfer, socket);
            if (!why.empty()) {
                return fail(communicator, why);
            }
            if (!is_done(transfer)) {
                waits.push_back({socket, static_cast<short>(transfer.is_send ? POLLOUT : POLLIN), 0});
            }
        }
        bool is_all = true;
        for (const Transfer &transfer : group.transfers) {
            is_all = is_all && is_done(transfer);
        }
        if (is_all) {
            return;
        }
        if (!waits.empty()) {
            poll(waits.data(), waits.size(), -1);
        }
    }
}

Status queue(const char *function, bool is_send, Address address, std::size_t count, int datatype, int peer, Communicator *communicator, void *stream) {
    // `ncclInt8` and `ncclUint8`.
    if (datatype != 0 && datatype != 1) {
        return refuse(INVALID_ARGUMENT, function, "only bytes are moved here");
    }
    if (communicator == nullptr || communicator->is_ended) {
        return refuse(INVALID_ARGUMENT, function, "there is no such communicator");
    }
    if (communicator->error != OK) {
        return static_cast<Status>(communicator->error.load());
    }
    if (peer < 0 || peer >= communicator->size || peer == communicator->rank) {
        return refuse(INVALID_ARGUMENT, function, "there is no other rank " + std::to_string(peer));
    }
    if (group_depth == 0) {
        return refuse(INVALID_USAGE, function, "outside of a group: two ranks that do so wait for each other");
    }
    if (!sconce_emulated_is_device_memory(address, count)) {
        return refuse(INVALID_ARGUMENT, function, std::to_string(count) + " bytes that are not of one allocation of a device");
    }
    int device = -1;
    if (cuCtxGetDevice(&device) != SUCCESS || device != communicator->device) {
        return refuse(INVALID_USAGE, function, "the current device is not the communicator's");
    }
    for (Group &group : groups) {
        if (group.communicator == communicator && group.stream == stream) {
            group.transfers.push_back({is_send, address, count, peer});
            return OK;
        }
    }
    groups.push_back({communicator, stream, 0, {{is_send, address, count, peer}}});
    return OK;
}

} // namespace

extern "C" {

Status ncclGetVersion(int *version) {
    *version = 22809;
    return OK;
}
const char *ncclGetErrorString(Status status) {
    switch (status) {
    case OK: return "no error";
    case SYSTEM: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case INVALID_ARGUMENT: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case INVALID_USAGE: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case REMOTE: return "remote process exited or there was a network error";
    default: return "unknown result code";
    }
}
Status ncclGetUniqueId(UniqueId *id) {
    unsigned char random[16] = {};
    if (getrandom(random, sizeof(random), 0) != static_cast<ssize_t>(sizeof(random))) {
        return SYSTEM;
    }
    std::string text = "sconce-nccl-";
    for (const unsigned char byte : random) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    std::memset(id->text, 0, sizeof(id->text));
    std::memcpy(id->text, text.data(), text.size());
    return OK;
}
Status ncclCommInitRank(Communicator **communicator, int size, UniqueId id, int rank) {
    if (size < 1 || rank < 0 || rank >= size || std::strncmp(id.text, "sconce-nccl-", 12) != 0) {
        return refuse(INVALID_ARGUMENT, "ncclCommInitRank", "no such rank, or no identifier");
    }
    auto *made = new Communicator{rank, size, 0, std::vector<int>(static_cast<std::size_t>(size), -1)};
    if (cuCtxGetDevice(&made->device) != SUCCESS) {
        return refuse(INVALID_USAGE, "ncclCommInitRank", "no device is current");
    }
    // Each rank waits for those after it, and connects with those before it.
    const int listener = listening(id, rank, size);
    if (listener < 0) {
        return refuse(SYSTEM, "ncclCommInitRank", std::string("no socket: ") + std::strerror(errno));
    }
    Status status = OK;
    for (int before = 0; before < rank && status == OK; before++) {
        status = greet(*made, connected(id, before));
    }
    for (int after = rank + 1; after < size && status == OK; after++) {
        status = greet(*made, accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    }
    close(listener);
    *communicator = made;
    return status;
}
Status ncclCommGetAsyncError(Communicator *communicator, int *error) {
    if (communicator->is_ended) {
        return refuse(INVALID_ARGUMENT, "ncclCommGetAsyncError", "there is no such communicator");
    }
    *error = communicator->error;
    return OK;
}
Status ncclCommAbort(Communicator *communicator) {
    if (communicator->is_ended) {
        return refuse(INVALID_ARGUMENT, "ncclCommAbort", "there is no such communicator");
    }
    communicator->is_ended = true;
    for (const int socket : communicator->sockets) {
        if (socket >= 0) {
            close(socket);
        }
    }
    // Not freed: work in a stream may still name it.
    return OK;
}
Status ncclGroupStart() {
    group_depth++;
    return OK;
}
Status ncclGroupEnd() {
    if (group_depth == 0) {
        return refuse(INVALID_USAGE, "ncclGroupEnd", "no group has begun");
    }
    if (--group_depth > 0) {
        return OK;
    }
    Status status = OK;
    for (Group &group : groups) {
        group.number = group.communicator->groups++;
        const int result = sconce_emulated_enqueue(
            group.stream, "sends and receives of NCCL",
            [](void *argument) {
                auto *it = static_cast<Group *>(argument);
                run(*it);
                delete it;
            },
            new Group(group));
        status = result == 0 ? status : SYSTEM;
    }
    groups.clear();
    return status;
}
Status ncclSend(Address from, std::size_t count, int datatype, int peer, Communicator *communicator, void *stream) {
    return queue("ncclSend", true, from, count, datatype, peer, communicator, stream);
}
Status ncclRecv(Address to, std::size_t count, int datatype, int peer, Communicator *communicator, void *stream) {
    return queue("ncclRecv", false, to, count, datatype, peer, communicator, stream);
}

} // extern "C"
