// The service may want a token. The page asks for it and keeps it until the window is closed.
import { useEffect, useRef, useState } from "preact/hooks";
import { onToken } from "../api";

export function Token() {
  const box = useRef<HTMLDialogElement>(null);
  const [asked, setAsked] = useState<{ wrong: boolean; answer: (token: string) => void } | null>(null);
  useEffect(() => onToken((wrong) => new Promise((answer) => setAsked({ wrong, answer }))), []);
  useEffect(() => { if (asked && !box.current?.open) box.current?.showModal(); }, [asked]);
  const send = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const field = event.currentTarget.elements.namedItem("token") as HTMLInputElement;
    const token = field.value.trim();
    if (!token || !asked) return;
    field.value = "";
    box.current?.close();
    setAsked(null);
    asked.answer(token);
  };
  return (
    <dialog ref={box} class="token" aria-labelledby="token-title" onCancel={(event) => event.preventDefault()}>
      <form onSubmit={send}>
        <h2 id="token-title">This service wants a token</h2>
        <p>{asked?.wrong ? "The service did not take the last token. Try another one." : "Whoever runs the service can give you one."}</p>
        <label for="token">Token</label>
        <input id="token" name="token" type="password" autocomplete="current-password" required maxLength={4000} />
        <button type="submit" class="main">Continue</button>
      </form>
    </dialog>
  );
}
