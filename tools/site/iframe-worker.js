/* Search in a site that is opened from a disk: browsers start no workers for file: addresses, so this one runs the
   worker's script in a hidden frame. Elsewhere it does nothing. The name is the one that the plugin "offline" looks for
   before it adds a script from another host. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      const attach = () => {
        document.body.append(this.frame)
        const inside = this.frame.contentWindow
        inside.postMessage = data => this.answer(data)
        const script = inside.document.createElement("script")
        script.src = new URL(address, location.href).href
        script.onload = () => {
          this.inside = inside
          this.waiting.splice(0).forEach(data => this.deliver(data))
        }
        script.onerror = () => this.dispatchEvent(new ErrorEvent("error", { message: `cannot load ${address}` }))
        inside.document.body.append(script)
      }
      if (document.body) attach()
      else document.addEventListener("DOMContentLoaded", attach)
    }
    postMessage(data) {
      if (this.inside) this.deliver(data)
      else this.waiting.push(data)
    }
    deliver(data) {
      setTimeout(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })))
    }
    answer(data) {
      const event = new MessageEvent("message", { data })
      if (this.onmessage) this.onmessage(event)
      this.dispatchEvent(event)
    }
    terminate() { this.frame.remove() }
  }
}
