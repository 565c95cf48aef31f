// SPDX-License-Identifier: Apache-2.0
// The script that zooms and moves a timeline in a browser: the wheel (in a page with Ctrl), dragging, the keys + - 0
// and the arrows, a double click for all of it. Opened on its own, the picture fits the window at first.
//
// The script is the same text in each picture, so it holds no name of a user's; the names that it shows it takes as
// text from the tooltips. It touches only the picture that holds it. It has neither `<` nor `&`, so that it is XML
// and HTML as it is. Where scripts do not run, the picture is complete without it.
#pragma once

#include <string_view>

namespace sluice::detail {

inline constexpr std::string_view timeline_script = R"js(<script>
(function(){
var script=document.currentScript,root=script?script.parentNode:null,time=root?root.querySelector(".time"):null;
if(!time)return;
function number(of,name){return parseFloat(of.getAttribute(name))}
function set(of,values){for(var name in values)of.setAttribute(name,values[name]);return of}
function add(to,name,values){return to.appendChild(set(document.createElementNS(root.namespaceURI,name),values))}
var pane=root.querySelector(".pane"),ticks=root.querySelector(".ticks"),axis=root.querySelector(".axis");
var left=number(root,"data-left"),right=number(root,"data-right"),first=number(root,"data-begin-us"),last=number(root,"data-end-us");
var wide=number(root,"width"),high=number(root,"height"),top=number(ticks,"data-top"),foot=number(ticks,"data-bottom");
var from=first,to=last,room=right-left,alone=document.documentElement===root,planned=0,drag=null;
var bars=[];
root.querySelectorAll(".bar").forEach(function(bar){
var rect=bar.querySelector("rect"),merged=rect.classList.contains("thin");
bars.push({bar:bar,rect:rect,merged:merged,x:number(rect,"x"),y:number(rect,"y"),w:number(rect,"width")+(merged?0:1),text:null});
});
bars.forEach(function(each){var old=each.bar.querySelector("svg");if(old)old.remove()});
function label(us,step){
var unit=to>=1e7?[1e6," s"]:to>=1e4?[1e3," ms"]:to>=0.1?[1," \u00b5s"]:[1e-3," ns"];
var digits=Math.min(9,Math.max(0,-Math.floor(Math.log10(step/unit[0])+1e-9)));
return (us/unit[0]).toFixed(us===0?0:digits)+unit[1];
}
function drawTicks(perUs){
while(ticks.firstChild)ticks.firstChild.remove();
var step=0,least=60/perUs;
for(var tries=0;60>tries;++tries){
var power=Math.pow(10,Math.floor(Math.log10(least)));
step=[1,2,5,10].map(function(f){return f*power}).find(function(s){return s>=least*(1-1e-9)});
if(step*perUs>=8*Math.max(label(to,step).length,label(from,step).length)+16)break;
least=step*1.5;
}
for(var n=Math.ceil(from/step-1e-6);to*(1+1e-12)>=n*step;++n){
var x=left+(n*step-from)*perUs;
add(ticks,"line",{"class":"grid",x1:x,y1:top,x2:x,y2:foot});
add(ticks,"text",{"class":"muted tick",x:x,y:foot+17,"text-anchor":"middle"}).textContent=label(n*step,step);
}
}
function drawNames(scale,shift){
bars.forEach(function(each){
if(each.merged)return;
var x=each.x*scale+shift,w=each.w*scale;
if(left>x+w||x>left+room)return;
var shown=Math.max(Math.min(1,w),w-1)/scale;
set(each.rect,{width:shown});
if(26>w){if(each.text)each.text.setAttribute("display","none");return}
if(!each.text){
var lines=each.bar.querySelector("title").textContent.split("\n");
each.text=add(each.bar,"svg",{x:each.x,y:each.y,height:number(each.rect,"height")});
var text=add(each.text,"text",{"class":"name",x:6,y:16});
text.textContent=lines[0];
if((lines[1]||"").indexOf("operation ")===0)add(text,"tspan",{"class":"of",dx:6}).textContent=lines[1].slice(10);
}
each.text.removeAttribute("display");
var start=Math.max(each.x,(left-shift)/scale);
set(each.text,{x:start,width:Math.max(0,each.x+shown-start)});
});
}
function draw(){
planned=0;
var scale=(last-first)/(to-from)*room/(right-left),perUs=room/(to-from);
var shift=left-(left+(from-first)*(right-left)/(last-first))*scale;
time.setAttribute("transform","matrix("+scale+",0,0,1,"+shift+",0)");
root.style.setProperty("--unscaled",1/scale);
drawTicks(perUs);
drawNames(scale,shift);
}
function plan(){if(!planned)planned=requestAnimationFrame(draw)}
function look(a,b){
var span=Math.min(last-first,Math.max(b-a,(last-first)/2000));
from=Math.max(first,Math.min(a,last-span));to=from+span;plan();
}
function zoom(factor,at){look(at-(at-from)*factor,at+(to-at)*factor)}
function usAt(event){
var box=root.getBoundingClientRect(),x=(event.clientX-box.left)*wide/box.width;
return from+Math.min(1,Math.max(0,(x-left)/room))*(to-from);
}
function fit(){
if(!alone)return plan();
wide=Math.max(Math.min(number(root,"data-width"),1200),window.innerWidth-(high>window.innerHeight?18:0));
room=wide-left-(number(root,"data-width")-right);
set(root,{width:wide,viewBox:"0 0 "+wide+" "+high});
set(root.querySelector(".ground"),{width:wide-1});
set(pane,{width:room,viewBox:left+" 0 "+room+" "+high});
root.querySelectorAll(".band").forEach(function(band){set(band,{width:room})});
set(axis,{x2:left+room});
plan();
}
root.addEventListener("wheel",function(event){
if(!alone){if(!event.ctrlKey){if(!event.metaKey)return}}
event.preventDefault();
if(Math.abs(event.deltaX)>Math.abs(event.deltaY)){var by=event.deltaX/room*(to-from);look(from+by,to+by)}
else zoom(Math.pow(1.0015,event.deltaY*(event.deltaMode?20:1)),usAt(event));
},{passive:false});
root.addEventListener("pointerdown",function(event){if(event.button===0)drag={x:event.clientX,from:from,to:to}});
window.addEventListener("pointermove",function(event){
if(!drag)return;
var by=(drag.x-event.clientX)*wide/root.getBoundingClientRect().width/room*(drag.to-drag.from);
look(drag.from+by,drag.to+by);
});
window.addEventListener("pointerup",function(){drag=null});
root.addEventListener("dblclick",function(){look(first,last)});
root.addEventListener("keydown",function(event){
var by=(to-from)/8,middle=(from+to)/2;
if(event.key==="+"||event.key==="=")zoom(0.7,middle);
else if(event.key==="-")zoom(1/0.7,middle);
else if(event.key==="0")look(first,last);
else if(event.key==="ArrowLeft")look(from-by,to-by);
else if(event.key==="ArrowRight")look(from+by,to+by);
else return;
event.preventDefault();
});
root.classList.add("scripted");
root.setAttribute("tabindex","0");
set(root,{"data-width":wide});
var hint=add(root,"text",{"class":"muted",x:left,y:foot+31});
hint.textContent=(alone?"wheel":"Ctrl+wheel")+" or + and - to zoom, drag or arrows to move, double click or 0 for all";
if(alone)window.addEventListener("resize",fit);
fit();
})();
</script>
)js";

}  // namespace sluice::detail
