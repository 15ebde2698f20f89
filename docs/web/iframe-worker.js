// Browsers start no worker from a file. There, the worker of the search runs in a hidden frame.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const page = this.frame.contentDocument
      page.open()
      page.write("<body>")
      page.close()
      this.inside = this.frame.contentWindow
      this.inside.postMessage = data => setTimeout(() => {
        const event = new MessageEvent("message", { data: structuredClone(data) })
        this.dispatchEvent(event)
        this.onmessage?.(event)
      })
      const script = page.createElement("script")
      script.src = url
      this.loaded = new Promise(resolve => { script.onload = resolve })
      page.body.append(script)
    }

    postMessage(data) {
      const event = new MessageEvent("message", { data: structuredClone(data) })
      this.loaded.then(() => this.inside.dispatchEvent(event))
    }

    terminate() {
      this.frame.remove()
    }
  }
