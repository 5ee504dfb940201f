/* Sconce hooks in C++: a class to derive from, over sconce.h.
 *
 *   class Clip : public sconce::hook {
 *    public:
 *     explicit Clip(const sconce::setup &setup) : max_norm_(setup.number("/max_norm", 1.0)) {}
 *     void call(const sconce::task &task) override { … }
 *   };
 *   SCONCE_PLUGIN("clip", "0.1.0", "…", SCONCE_HOOK("clip", "…", 30, SCONCE_AT(…), SCONCE_JSON({…})));
 *   SCONCE_EXPORT_KINDS(sconce::kind<Clip>("clip"));
 *
 * Constructors and methods report failures by exceptions; none leaves the library:
 * - sconce::error: the hook failed, with this message. sconce::config_error: an option is wrong; for constructors.
 * - any other exception: a bug, shown to the user as a panic is.
 *
 * Optional: everything of sconce.h can be used beside it. C++11 or later. License: MIT OR Apache-2.0. */
#ifndef SCONCE_HPP
#define SCONCE_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "sconce.h"

namespace sconce {

/* A failure of the hook's, with a message for the user and a status. */
class error : public std::runtime_error {
 public:
  explicit error(const std::string &message, uint32_t status = SCONCE_ERROR)
      : std::runtime_error(message), status_(status) {}
  uint32_t status() const noexcept { return status_; }

 private:
  uint32_t status_;
};

/* What is wrong with an option of the configuration, such as "max_norm". */
class config_error : public error {
 public:
  config_error(const std::string &option, const std::string &message)
      : error("`" + option + "`: " + message, SCONCE_CONFIG) {}
};

/* A text to pass to the host; it borrows the string. */
inline sconce_text text(const std::string &string) {
  sconce_text text;
  text.pointer = reinterpret_cast<const uint8_t *>(string.data());
  text.length = string.size();
  return text;
}

/* A copy of a text. */
inline std::string string(sconce_text text) {
  return text.length == 0 ? std::string() : std::string(reinterpret_cast<const char *>(text.pointer), text.length);
}

/* The host's tables; each is null if the host lacks it, except `c`, which hooks require. */
struct tables {
  explicit tables(const sconce_host &host)
      : c(query<sconce_c_table>(host, SCONCE_C_ID)),
        log(query<sconce_log_table>(host, SCONCE_LOG_ID)),
        metrics(query<sconce_metrics_table>(host, SCONCE_METRICS_ID)),
        tensors(query<sconce_tensors_table>(host, SCONCE_TENSORS_ID)),
        values(query<sconce_values_table>(host, SCONCE_VALUES_ID)),
        requests(query<sconce_requests_table>(host, SCONCE_REQUESTS_ID)),
        task(query<sconce_task_table>(host, SCONCE_TASK_ID)),
        run(query<sconce_run_table>(host, SCONCE_RUN_ID)),
        resume(query<sconce_resume_table>(host, SCONCE_RESUME_ID)),
        plan(query<sconce_plan_table>(host, SCONCE_PLAN_ID)),
        claims(query<sconce_claims_table>(host, SCONCE_CLAIMS_ID)),
        screen(query<sconce_screen_table>(host, SCONCE_SCREEN_ID)),
        threads(query<sconce_threads_table>(host, SCONCE_THREADS_ID)),
        vectors(query<sconce_vectors_table>(host, SCONCE_VECTORS_ID)),
        device(query<sconce_device_table>(host, SCONCE_DEVICE_ID)),
        gpu(query<sconce_gpu_table>(host, SCONCE_GPU_ID)) {}

  const sconce_c_table *c;
  const sconce_log_table *log;
  const sconce_metrics_table *metrics;
  const sconce_tensors_table *tensors;
  const sconce_values_table *values;
  const sconce_requests_table *requests;
  const sconce_task_table *task;
  const sconce_run_table *run;
  const sconce_resume_table *resume;
  const sconce_plan_table *plan;
  const sconce_claims_table *claims;
  const sconce_screen_table *screen;
  const sconce_threads_table *threads;
  const sconce_vectors_table *vectors;
  const sconce_device_table *device;
  const sconce_gpu_table *gpu;

 private:
  template <typename Table>
  static const Table *query(const sconce_host &host, const char *id) {
    return static_cast<const Table *>(host.query(sconce_str(id)));
  }
};

/* Returns the table, or throws where the host lacks it: require(task.host().tensors, SCONCE_TENSORS_ID). */
template <typename Table>
const Table &require(const Table *table, const char *id) {
  if (table == nullptr) throw error(std::string("this host lacks ") + id, SCONCE_UNSUPPORTED);
  return *table;
}

/* Values of a JSON text, by JSON pointers such as "/max_norm". */
class json {
 public:
  json(const sconce_c_table &c, sconce_text text) : c_(&c), text_(text) {}

  /* The value at a pointer, or `absent` if there is none or it is null. One of another type throws. */
  double number(const std::string &pointer, double absent) const {
    return read(c_->json_number, pointer, absent, "a number");
  }
  bool boolean(const std::string &pointer, bool absent) const {
    return read(c_->json_bool, pointer, static_cast<uint32_t>(absent), "a boolean") != 0;
  }
  std::string string(const std::string &pointer, const std::string &absent) const {
    std::size_t length = 0;
    uint32_t status = c_->json_text(text_, sconce::text(pointer), nullptr, 0, &length);
    if (!is_there(status, pointer, "a text")) return absent;
    std::string value(length, '\0');
    if (length > 0) c_->json_text(text_, sconce::text(pointer), reinterpret_cast<uint8_t *>(&value[0]), length, &length);
    return value;
  }

 private:
  template <typename Function, typename Value>
  Value read(Function function, const std::string &pointer, Value value, const char *what) const {
    Value found = value;
    return is_there(function(text_, sconce::text(pointer), &found), pointer, what) ? found : value;
  }

  static bool is_there(uint32_t status, const std::string &pointer, const char *what) {
    if (status == SCONCE_OK) return true;
    if (status == SCONCE_NOT_FOUND) return false;
    throw error("`" + pointer + "` is not " + what);
  }

  const sconce_c_table *c_;
  sconce_text text_;
};

/* What a constructor receives: the hook's configuration, and the run. Valid during its call. */
class setup : public json {
 public:
  setup(const tables &host, const sconce_setup &raw, sconce_text config)
      : json(*host.c, config), host_(&host), raw_(&raw) {}

  std::string name() const { return sconce::string(raw_->name); }
  std::string run_directory() const { return sconce::string(raw_->run_directory); }
  uint64_t seed() const { return raw_->seed; }
  json manifest() const { return json(*host_->c, raw_->manifest); }
  const tables &host() const { return *host_; }
  const sconce_setup &raw() const { return *raw_; }

 private:
  const tables *host_;
  const sconce_setup *raw_;
};

/* The task at a mount point. Valid during the call. */
class task {
 public:
  task(const tables &host, const sconce_view &view, sconce_error *error) : host_(&host), view_(&view), error_(error) {}

  const sconce_view &view() const { return *view_; }
  const tables &host() const { return *host_; }
  uint32_t point() const { return view_->point; }
  uint32_t phase() const { return view_->phase; }
  const void *context() const { return view_->context; }

  /* Throws what the host refused. For statuses of its functions that were given error(). */
  void check(uint32_t status) const {
    if (status == SCONCE_OK) return;
    std::string message = sconce::string(host_->c->read_error(error_));
    host_->c->clear_error(error_);
    throw sconce::error(message.empty() ? "the host refused, with status " + std::to_string(status) : message, status);
  }
  sconce_error *error() const { return error_; }

  void log(uint32_t level, const std::string &message) const {
    if (host_->log != nullptr) host_->log->log(context(), level, text(message));
  }
  /* Whether the phase has this metric; writes its value. */
  bool metric(uint32_t phase, const std::string &name, double *value) const {
    return require(host_->metrics, SCONCE_METRICS_ID).get(context(), phase, text(name), value) == SCONCE_OK;
  }
  void publish(const std::string &name, double value) const {
    check(require(host_->metrics, SCONCE_METRICS_ID).publish(context(), text(name), value, error_));
  }
  void request(uint32_t number, const std::string &what = std::string(), double value = 0) const {
    check(require(host_->requests, SCONCE_REQUESTS_ID).request(context(), number, value, text(what), error_));
  }
  /* Calls `use` with each tensor of a collection. Those that are lent for writing are contiguous. */
  template <typename Use>
  void for_each_tensor(uint32_t collection, bool writable, Use use) const {
    const sconce_tensors_table &tensors = require(host_->tensors, SCONCE_TENSORS_ID);
    std::size_t count = tensors.count(context(), collection);
    for (std::size_t index = 0; index < count; ++index) {
      sconce_tensor tensor;
      uint32_t status = tensors.at(context(), collection, index, writable ? 1u : 0u, &tensor, error_);
      if (status == SCONCE_NOT_FOUND) {
        host_->c->clear_error(error_);
        continue;
      }
      check(status);
      use(tensor);
    }
  }

 private:
  const tables *host_;
  const sconce_view *view_;
  sconce_error *error_;
};

/* A hook. The host calls it at the mount points of its metadata. */
class hook {
 public:
  hook() = default;
  hook(const hook &) = delete;
  hook &operator=(const hook &) = delete;
  virtual ~hook() = default;

  /* `throw sconce::unknown_point()` at mount points that it has no code for. */
  virtual void call(const task &task) = 0;
  /* The state for checkpoints. */
  virtual std::string save_state() { return std::string(); }
  /* Restores what save_state returned; throws where it is damaged. */
  virtual void load_state(const json &state, const std::string &bytes) {
    (void)state;
    (void)bytes;
  }
};

/* The metadata lists a mount point that the hook has no code for. */
class unknown_point : public error {
 public:
  unknown_point() : error("this hook has no code for this mount point", SCONCE_UNSUPPORTED) {}
};

namespace detail {

/* What `instance` points to. */
struct instance {
  explicit instance(const sconce_host &host) : host(host) {}
  tables host;
  std::unique_ptr<hook> object;
};

/* Runs `body`; an exception becomes a status and a message. */
template <typename Body>
uint32_t fenced(const sconce_c_table *c, sconce_error *to, Body body) noexcept {
  try {
    body();
    return SCONCE_OK;
  } catch (const error &failure) {
    c->set_error(to, sconce_str(failure.what()), sconce_str(""));
    return failure.status() == SCONCE_OK ? SCONCE_ERROR : failure.status();
  } catch (const std::exception &bug) {
    c->set_error(to, sconce_str(bug.what()), sconce_str(""));
  } catch (...) {
    c->set_error(to, sconce_str("an exception that is not a std::exception"), sconce_str(""));
  }
  return SCONCE_PANIC;
}

extern "C" inline uint32_t sconce_detail_call(void *raw, uint32_t, const sconce_view *view, sconce_error *error) noexcept {
  instance *self = static_cast<instance *>(raw);
  return fenced(self->host.c, error, [&] { self->object->call(task(self->host, *view, error)); });
}

extern "C" inline uint32_t sconce_detail_save(void *raw, sconce_bytes *state, sconce_error *error) noexcept {
  instance *self = static_cast<instance *>(raw);
  return fenced(self->host.c, error, [&] {
    std::string bytes = self->object->save_state();
    self->host.c->append(state, text(bytes).pointer, bytes.size());
  });
}

extern "C" inline uint32_t sconce_detail_load(void *raw, const uint8_t *state, size_t length, sconce_error *error) noexcept {
  instance *self = static_cast<instance *>(raw);
  return fenced(self->host.c, error, [&] {
    sconce_text borrowed = {state, length};
    self->object->load_state(json(*self->host.c, borrowed), string(borrowed));
  });
}

extern "C" inline uint32_t sconce_detail_drop(void *raw, sconce_error *error) noexcept {
  instance *self = static_cast<instance *>(raw);
  const sconce_c_table *c = self->host.c;
  return fenced(c, error, [&] { delete self; });
}

inline const sconce_hook_table *table() {
  static const sconce_hook_table functions = {sconce_detail_call, sconce_detail_save, sconce_detail_load,
                                              sconce_detail_drop};
  return &functions;
}

}  // namespace detail

/* A hook kind of the library: the name in its metadata, and how one is created. */
struct kind_entry {
  const char *name;
  std::unique_ptr<hook> (*create)(const setup &);
};

template <typename Hook>
std::unique_ptr<hook> create_hook(const setup &setup) {
  return std::unique_ptr<hook>(new Hook(setup));
}

/* The kind of this name, whose hooks are of class Hook, constructed with a `const sconce::setup &`. */
template <typename Hook>
kind_entry kind(const char *name) {
  kind_entry entry = {name, &create_hook<Hook>};
  return entry;
}

namespace detail {

inline uint32_t create(const kind_entry *kinds, std::size_t count, sconce_text name, sconce_text config,
                       const sconce_setup *raw, sconce_hook *hook, sconce_error *error) noexcept {
  const sconce_c_table *c = static_cast<const sconce_c_table *>(raw->host->query(sconce_str(SCONCE_C_ID)));
  if (c == nullptr) return SCONCE_UNSUPPORTED;
  for (std::size_t index = 0; index < count; ++index) {
    if (!sconce_is(name, kinds[index].name)) continue;
    return fenced(c, error, [&] {
      std::unique_ptr<instance> created(new instance(*raw->host));
      created->object = kinds[index].create(setup(created->host, *raw, config));
      hook->table = table();
      hook->instance = created.release();
    });
  }
  c->set_error(error, sconce_str("SCONCE_EXPORT_KINDS lacks a hook of the metadata"), sconce_str(""));
  return SCONCE_NO_SUCH_KIND;
}

}  // namespace detail
}  // namespace sconce

/* Exports the library's hooks, once: SCONCE_EXPORT_KINDS(sconce::kind<Clip>("clip"), …). */
#define SCONCE_EXPORT_KINDS(...)                                                                                       \
  extern "C" {                                                                                                         \
  static uint32_t sconce_create_(sconce_text name, sconce_text config, const sconce_setup *setup, sconce_hook *hook,  \
                                 sconce_error *error) noexcept {                                                       \
    const sconce::kind_entry kinds[] = {__VA_ARGS__};                                                                  \
    return sconce::detail::create(kinds, sizeof(kinds) / sizeof(kinds[0]), name, config, setup, hook, error);          \
  }                                                                                                                    \
  SCONCE_EXPORT const sconce_plugin *sconce_c_plugin_v1(const sconce_host *) {                                         \
    static const sconce_plugin plugin = {SCONCE_ABI_EPOCH, nullptr, sconce_create_, nullptr};                          \
    return &plugin;                                                                                                    \
  }                                                                                                                    \
  }                                                                                                                    \
  static_assert(true, "a semicolon follows")

#endif
